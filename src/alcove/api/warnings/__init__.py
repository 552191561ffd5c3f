"""What a client is warned of although its object is taken: deprecated, ignored or surprising, in Kubernetes' words.

templates  pods, and templates of pods
ports      a pod's ports that are in each other's way
paths      a volume's files that are
nodes      labels of nodes that have newer names
workloads  what makes pods
services   services, endpoints, ingresses, network policies
storage    volumes, claims, classes
core       nodes, service accounts, quotas
custom     custom resources
versions   kinds that are deprecated as a whole
"""

from collections.abc import Sequence

from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.warnings import core, custom, nodes, services, storage, templates, workloads
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
    """What to warn of when the object is created (`old` is None) or becomes `new`; it is complete and valid."""
    warn = TABLE.get((kind.group, kind.resource)) if kind.definition else custom.resource
    return warn(new, old) if warn is not None else ()
