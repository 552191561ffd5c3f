"""Warnings for accepted objects with deprecated, ignored or surprising fields, in Kubernetes' texts.

templates  pods and pod templates
ports      conflicting ports of a pod
paths      conflicting files of a volume
nodes      deprecated node labels
workloads  controllers of pods
services   services, endpoints, ingresses, network policies
storage    volumes, claims, classes
core       nodes, service accounts, quotas, custom resources
unserved   fields that nothing in the cluster acts on
base       kinds that are deprecated as a whole
"""

from collections.abc import Sequence

from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.warnings import core, nodes, services, storage, templates, unserved, workloads
from alcove.api.warnings.base import Warn

TABLE: dict[tuple[str, str], Warn] = {
    ("", "endpoints"): services.endpoints,
    ("", "nodes"): core.node,
    ("", "persistentvolumeclaims"): storage.claim,
    ("", "persistentvolumes"): storage.volume,
    ("", "pods"): templates.pod,
    ("", "podtemplates"): workloads.pod_template,
    ("", "replicationcontrollers"): workloads.named,
    ("", "resourcequotas"): core.quota,
    ("", "serviceaccounts"): core.service_account,
    ("", "services"): services.service,
    ("apps", "daemonsets"): workloads.unnamed,
    ("apps", "deployments"): workloads.named,
    ("apps", "replicasets"): workloads.named,
    ("apps", "statefulsets"): workloads.stateful_set,
    ("batch", "cronjobs"): workloads.cron_job,
    ("batch", "jobs"): workloads.job,
    ("discovery.k8s.io", "endpointslices"): services.endpoint_slice,
    ("networking.k8s.io", "ingresses"): services.ingress,
    ("networking.k8s.io", "networkpolicies"): services.network_policy,
    ("node.k8s.io", "runtimeclasses"): nodes.runtime_class,
    ("storage.k8s.io", "csidrivers"): storage.driver,
    ("storage.k8s.io", "csistoragecapacities"): storage.capacity,
    ("storage.k8s.io", "storageclasses"): storage.storage_class,
}


def of(kind: Kind, new: Object, old: Object | None) -> Sequence[str]:
    """Return the warnings for a complete and valid object that is created (`old` is None) or updated."""
    resource = (kind.group, kind.resource)
    warn = TABLE.get(resource) if kind.definition else core.custom_resource
    return [*(warn(new, old) if warn is not None else ()), *unserved.warnings(resource, new, old)]
