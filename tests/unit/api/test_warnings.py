"""Every other kind of the table: its warnings on create and on update."""

from typing import Any

import pytest

from alcove.api import registry, warnings
from alcove.api.objects import Object
from alcove.api.warnings import core, unserved

KINDS = registry.load()
OS = 'deprecated since v1.14; use "kubernetes.io/os" instead'
BAD_TEMPLATE = {"spec": {"containers": [], "nodeSelector": {"beta.kubernetes.io/os": "linux"}}}
HOST = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"
V6 = "2001:DB8::1"


def canonical(path: str) -> str:
    return f'{path}: IPv6 address "{V6}" should be in RFC 5952 canonical format ("2001:db8::1")'


def messages(group: str, resource: str, new: Object, old: Object | None = None) -> list[str]:
    """Kubernetes' own warnings."""
    kind = next(each for each in KINDS.all() if (each.group, each.resource) == (group, resource))
    unserved_warnings = unserved.warnings((group, resource), new, old)
    return [each for each in warnings.of(kind, new, old) if each not in unserved_warnings]


def obj(name: str = "x", annotations: dict[str, str] | None = None, **fields: Any) -> Object:
    return {"metadata": {"name": name, "annotations": annotations or {}}, **fields}


@pytest.mark.parametrize(
    ("group", "resource", "given", "wanted"),
    [
        ("apps", "deployments", obj("a.b"), [HOST]),
        ("apps", "replicasets", obj("a.b"), [HOST]),
        ("", "replicationcontrollers", obj("a.b"), [HOST]),
        ("batch", "jobs", obj("a.b"), [HOST]),
        ("batch", "cronjobs", obj("a.b"), [HOST]),
        ("apps", "daemonsets", obj("a.b"), []),
        ("apps", "deployments", obj(spec={"template": BAD_TEMPLATE}), [f"spec.template.spec.nodeSelector[beta.kubernetes.io/os]: {OS}"]),
        ("", "podtemplates", obj(template=BAD_TEMPLATE), [f"template.spec.nodeSelector[beta.kubernetes.io/os]: {OS}"]),
        ("batch", "cronjobs", obj(spec={"jobTemplate": {"spec": {"template": BAD_TEMPLATE}}}),
         [f"spec.jobTemplate.spec.template.spec.nodeSelector[beta.kubernetes.io/os]: {OS}"]),
        ("batch", "jobs", obj(spec={"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001}),
         ["spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes "
          "might not be able to track completedIndexes when a big number of indexes fail"]),
        ("batch", "jobs", obj(spec={"completionMode": "NonIndexed", "completions": 100_001, "parallelism": 10_001}), []),
        ("apps", "statefulsets", obj(spec={"revisionHistoryLimit": -1}),
         ["spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"]),
        ("apps", "statefulsets", obj(spec={"volumeClaimTemplates": [{"spec": {"resources": {"requests": {"storage": "1m"}}}}]}),
         ['spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value "1m" is invalid, must be an integer']),
        ("", "services", obj(annotations={"service.kubernetes.io/topology-aware-hints": "auto"}),
         ["annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead"]),
        ("", "services", obj(spec={"type": "ClusterIP", "clusterIPs": [V6], "clusterIP": V6}), [canonical("spec.clusterIPs[0]")]),
        ("", "services", obj(spec={"type": "ClusterIP", "externalIPs": ["1.2.3.4"]}),
         ["spec.externalIPs is deprecated and may no longer be implemented in some clusters"]),
        ("", "services", obj(spec={"type": "ExternalName", "externalName": "a", "externalIPs": ["1.2.3.4"]}),
         ['spec.externalIPs is ignored when spec.type is "ExternalName"']),
        ("", "services", obj(spec={"type": "ClusterIP", "externalName": "a"}), ['spec.externalName is ignored when spec.type is not "ExternalName"']),
        ("", "services", obj(spec={"type": "ClusterIP", "clusterIP": "None", "externalIPs": ["1.2.3.4"], "loadBalancerIP": "1.2.3.4",
                                   "sessionAffinity": "ClientIP"}),
         ["spec.loadBalancerIP is ignored for headless services", "spec.externalIPs is ignored for headless services",
          "spec.SessionAffinity is ignored for headless services"]),
        ("", "services", obj(spec={"trafficDistribution": "PreferClose"}), ['spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"']),
        ("", "services", obj(spec={"loadBalancerSourceRanges": ["2001:DB8::/32"]}),
         ['spec.loadBalancerSourceRanges[0]: IPv6 CIDR value "2001:DB8::/32" should be in RFC 5952 canonical format ("2001:db8::/32")']),
        ("", "endpoints", obj(subsets=[{"notReadyAddresses": [{"ip": V6}]}]), [canonical("subsets[0].notReadyAddresses[0].ip")]),
        ("discovery.k8s.io", "endpointslices", obj(addressType="FQDN", endpoints=[]), ["spec.addressType: FQDN endpoints are deprecated"]),
        ("discovery.k8s.io", "endpointslices", obj(addressType="IPv6", endpoints=[{"addresses": [V6]}]), [canonical("endpoints[0].addresses[0]")]),
        ("networking.k8s.io", "ingresses", obj(annotations={"kubernetes.io/ingress.class": "a"}, spec={}),
         ['annotation "kubernetes.io/ingress.class" is deprecated, please use \'spec.ingressClassName\' instead']),
        ("networking.k8s.io", "ingresses", obj(annotations={"kubernetes.io/ingress.class": "a"}, spec={"ingressClassName": "a"}), []),
        ("networking.k8s.io", "networkpolicies", obj(spec={"egress": [{"to": [{"ipBlock": {"cidr": "::/0", "except": ["2001:DB8::/32"]}}]}]}),
         ['spec.egress[0].to[0].ipBlock.except[0]: IPv6 CIDR value "2001:DB8::/32" should be in RFC 5952 canonical format ("2001:db8::/32")']),
        ("node.k8s.io", "runtimeclasses", obj(scheduling={"nodeSelector": {"beta.kubernetes.io/os": "a"}}), [f"scheduling.nodeSelector: {OS}"]),
        ("", "persistentvolumeclaims", obj(annotations={"volume.beta.kubernetes.io/storage-class": "a"}),
         ['metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead']),
        ("", "persistentvolumeclaims", obj(spec={"resources": {"requests": {"storage": "1500m"}}}),
         ['spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer']),
        ("", "persistentvolumes", obj(spec={"persistentVolumeReclaimPolicy": "Recycle", "rbd": {}}),
         ["spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic "
          "provisioning.", "spec.rbd: deprecated in v1.28, non-functional in v1.31+"]),
        ("", "persistentvolumes", obj(annotations={"volume.beta.kubernetes.io/mount-options": "a"}),
         ['metadata.annotations[volume.beta.kubernetes.io/mount-options]: deprecated since v1.31; use "mountOptions" attribute instead']),
        ("", "persistentvolumes", obj(spec={"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "beta.kubernetes.io/os"}]}]}}}),
         [f"spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/os is {OS}"]),
        ("storage.k8s.io", "storageclasses", obj(allowedTopologies=[{"matchLabelExpressions": [{"key": "beta.kubernetes.io/os"}]}]),
         [f"allowedTopologies[0].matchLabelExpressions[0].key: {OS}"]),
        ("storage.k8s.io", "csistoragecapacities", obj(nodeTopology={"matchLabels": {"beta.kubernetes.io/os": "a"}}),
         [f"nodeTopology.matchLabels.beta.kubernetes.io/os: {OS}"]),
        ("storage.k8s.io", "csidrivers", obj(spec={"tokenRequests": [{"audience": "a"}]}),
         ["spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in "
          "volume attributes"]),
        ("storage.k8s.io", "csidrivers", obj(spec={"tokenRequests": [{"audience": "a"}], "serviceAccountTokenInSecrets": False}), []),
        ("", "nodes", obj(spec={"externalID": "a"}), ["spec.externalID: this field is deprecated, and is unused by Kubernetes"]),
        ("", "serviceaccounts", obj(annotations={"kubernetes.io/enforce-mountable-secrets": "true"}),
         ["metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to "
          "mounted secrets"]),
        ("", "resourcequotas", obj(spec={"hard": {"cpu": "2", "limits.cpu": "1500m"}}),
         ["ResourceQuota cpu (2) should be less than limits.cpu (1500m)"]),
        ("", "resourcequotas", obj(spec={"hard": {"requests.memory": "1Gi", "limits.memory": "1Gi"}}), []),
        ("", "configmaps", obj(), []),
    ],
)  # fmt: skip
def test_warnings_of_a_new_object(group: str, resource: str, given: Object, wanted: list[str]) -> None:
    assert messages(group, resource, given) == wanted


def test_an_unchanged_template_is_not_warned_of_again() -> None:
    old = obj("a.b", spec={"template": BAD_TEMPLATE, "replicas": 1})
    assert messages("apps", "deployments", {**old, "spec": {**old["spec"], "replicas": 2}}, old) == []
    before = obj("a.b", spec={"template": {"spec": {}}})
    assert messages("apps", "deployments", old, before) == [
        f"spec.template.spec.nodeSelector[beta.kubernetes.io/os]: {OS}"
    ]


def test_an_existing_annotation_is_not_warned_of_again() -> None:
    account = obj(annotations={"kubernetes.io/enforce-mountable-secrets": "true"})
    assert messages("", "serviceaccounts", account, account) == []


@pytest.mark.parametrize(
    ("finalizer", "wanted"),
    [
        ("example.com/anchor", []),
        ("foregroundDeletion", []),
        ("anchor", ['metadata.finalizers: "anchor": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers']),
        ("anchor.example.com", ['metadata.finalizers: "anchor.example.com": prefer a domain-qualified finalizer name including a path (/) to avoid '
                                "accidental conflicts with other finalizer writers"]),
    ],
)  # fmt: skip
def test_finalizers_of_custom_resources(finalizer: str, wanted: list[str]) -> None:
    given = {"metadata": {"finalizers": [finalizer]}}
    assert core.custom_resource(given, None) == wanted
    assert core.custom_resource(given, given) == []


def test_deprecated_kinds_have_a_warning() -> None:
    messages = {kind.kind: kind.warning for kind in KINDS.all() if kind.warning}
    assert messages == {
        "ComponentStatus": "v1 ComponentStatus is deprecated in v1.19+",
        "Endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    }
