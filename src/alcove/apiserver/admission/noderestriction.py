"""Restricts the writes of nodes to themselves and the pods bound to them.

Authorization sees only the path of a write; this plugin checks the written object against the stored one. A
compromised node cannot gain pods, labels, owners or claims by its own writes.
"""

from alcove.api import local_volumes, objects
from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.kind import CLIENT_METADATA
from alcove.api.objects import Object
from alcove.api.resources import (
    CSI_NODES,
    EVENTS,
    LEASES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_CERTIFICATE_REQUESTS,
    PODS,
    SERVICE_ACCOUNTS,
    USAGE_REPORTS,
)
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.identity import Identity
from alcove.apiserver.rbac import podreferences
from alcove.apiserver.rbac.nodes import LEASE_NAMESPACE, node_name
from alcove.apiserver.rbac.podreferences import MIRROR
from alcove.apiserver.reader import CacheReader

"""The stored resource, whichever API group the client used."""
_HANDLED = frozenset(
    (
        NODES,
        PODS,
        LEASES,
        CSI_NODES,
        PERSISTENT_VOLUME_CLAIMS,
        PERSISTENT_VOLUMES,
        POD_CERTIFICATE_REQUESTS,
        EVENTS,
        USAGE_REPORTS,
    )
)

_RESERVED = ("kubernetes.io", "k8s.io")
"""Includes `node-restriction.kubernetes.io`, whose labels a node may never set."""
_NODE_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_NODE_LABELS = frozenset(
    (
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.kubernetes.io/region",
        "failure-domain.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    )
)
"""Labels that describe the machine; the node may set them."""

_PROTECTED_POD_STATUS = ("resourceClaimStatuses", "extendedResourceClaimStatus", "nominatedNodeName")
"""Status fields that affect permissions and placement: only the scheduler and controllers write them."""
_PROTECTED_CLAIM_STATUS = ("phase", "accessModes")


class NodeRestriction(Plugin):
    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return resource in _HANDLED

    async def admit(self, attributes: Attributes) -> None:
        node = node_name(attributes.identity)
        # In the second run the object may contain changes of webhooks, which are not the node's.
        if not node or attributes.is_reinvoked:
            return
        message = self._violation(node, attributes)
        if message:
            name = attributes.name or objects.name(attributes.obj or {})
            raise Forbidden.of(attributes.requested_resource, name, f'node "{node}" {message}')

    def _violation(self, node: str, attributes: Attributes) -> str:
        resource = attributes.resource
        if resource == PODS:
            return self._pod_violation(node, attributes)
        if resource == NODES:
            return _node_violation(node, attributes)
        if resource == LEASES:
            in_place = attributes.tenant == SYSTEM and attributes.namespace == LEASE_NAMESPACE
            return "" if in_place and attributes.name == node else "can only write its own lease"
        if resource == CSI_NODES:
            is_own = attributes.tenant == SYSTEM and attributes.name == node
            return "" if is_own else "can only write its own CSINode"
        if resource == USAGE_REPORTS:
            is_own = attributes.tenant == SYSTEM and attributes.name == node
            return "" if is_own else "can only write its own UsageReport"
        if resource == PERSISTENT_VOLUME_CLAIMS:
            return _claim_violation(attributes)
        if resource == PERSISTENT_VOLUMES:
            return _volume_violation(node, attributes)
        if resource == POD_CERTIFICATE_REQUESTS:
            return self._certificate_violation(node, attributes)
        return _event_violation(node, attributes)

    def _pod_violation(self, node: str, attributes: Attributes) -> str:
        if attributes.operation is Operation.CREATE and not attributes.subresource:
            return _mirror_violation(node, attributes.obj or {}, self._reader.get(SYSTEM, NODES, "", node))
        old = attributes.old or {}
        if objects.get(old, "spec", "nodeName") != node:
            return "can only write pods bound to itself"
        if attributes.operation is Operation.DELETE:
            return ""
        if attributes.operation is not Operation.UPDATE or attributes.subresource != "status":
            return "can only write the status of its pods"
        return _status_violation(attributes.obj or {}, old, _PROTECTED_POD_STATUS)

    def _certificate_violation(self, node: str, attributes: Attributes) -> str:
        """A node may request only certificates of pods on it, for their service accounts, of the signers that their
        volumes name."""
        if attributes.operation is not Operation.CREATE or attributes.subresource:
            return "can only create requests for certificates"
        spec: Object = (attributes.obj or {}).get("spec") or {}
        tenant, namespace = attributes.tenant, attributes.namespace
        own = self._reader.get(SYSTEM, NODES, "", node)  # The server of a dedicated tenant has no nodes.
        if spec.get("nodeName") != node or (
            own is not None and spec.get("nodeUID") != own["metadata"]["uid"]
        ):
            return "can only request certificates in its own name"
        pod = self._reader.get(tenant, PODS, namespace, spec.get("podName") or "")
        if (
            pod is None
            or objects.get(pod, "spec", "nodeName") != node
            or pod["metadata"]["uid"] != spec.get("podUID")
            or MIRROR in objects.annotations(pod)
        ):
            return "can only request certificates of pods bound to itself"
        name = objects.get(pod, "spec", "serviceAccountName", default="")
        account = self._reader.get(tenant, SERVICE_ACCOUNTS, namespace, name)
        expected = (name, account["metadata"]["uid"] if account is not None else None)
        if (spec.get("serviceAccountName"), spec.get("serviceAccountUID")) != expected:
            return "can only request certificates for the service accounts of its pods"
        if spec.get("signerName") not in podreferences.certificate_signers(pod):
            return "can only request certificates of the signers that the pod's volumes name"
        return ""


def _status_violation(new: Object, old: Object, protected: tuple[str, ...]) -> str:
    """A status update of a node may change neither metadata, since labels and owners affect placement and
    permissions, nor the status fields `protected`."""
    return _changed_field(new, old, "metadata", CLIENT_METADATA) or _changed_field(
        new, old, "status", protected
    )


def _changed_field(new: Object, old: Object, within: str, fields: tuple[str, ...]) -> str:
    for field in fields:
        if (objects.get(new, within, field) or None) != (objects.get(old, within, field) or None):
            return f"cannot change {within}.{field}"
    return ""


def _mirror_violation(node: str, pod: Object, own: Object | None) -> str:
    """A new pod must be a mirror pod of this node that refers to no API objects."""
    if MIRROR not in objects.annotations(pod):
        return "can only create mirror pods"
    if objects.get(pod, "spec", "nodeName") != node:
        return "can only create pods bound to itself"
    owners = objects.get(pod, "metadata", "ownerReferences", default=[])
    expected = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": node,
        "uid": own["metadata"]["uid"] if own else None,
        "controller": True,
    }
    if len(owners) != 1 or {field: owners[0].get(field) for field in expected} != expected:
        return "can only create pods with itself as their one owner and controller"
    if owners[0].get("blockOwnerDeletion"):
        return "cannot create pods that keep it from being deleted"
    if podreferences.references(pod) or podreferences.token_audiences(pod):
        return "cannot create pods that refer to secrets, config maps, claims or service accounts"
    return ""


def _node_violation(node: str, attributes: Attributes) -> str:
    if attributes.tenant != SYSTEM or attributes.name != node:
        return "can only write its own Node"
    new, old = attributes.obj, attributes.old
    if new is None:
        return ""
    if old is None:
        return _new_node_violation(new)
    before, after = objects.labels(old), objects.labels(new)
    changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    if others := sorted(name for name in changed if not _is_node_label(name)):
        return f"cannot change labels that are not its own: {', '.join(others)}"
    return _changed_field(new, old, "metadata", ("ownerReferences", "finalizers")) or _spec_violation(
        new, old
    )


def _new_node_violation(node: Object) -> str:
    """A node may register with its machine's labels and with labels of domains that are not reserved."""
    refused = sorted(
        name for name in objects.labels(node) if _is_in(name, _RESERVED) and not _is_node_label(name)
    )
    if refused:
        return f"cannot set labels that are not its own: {', '.join(refused)}"
    return _changed_field(node, {}, "metadata", ("ownerReferences", "finalizers"))


def _spec_violation(new: Object, old: Object) -> str:
    """A registered node may not change its spec, except that it may set an empty providerID."""
    after, before = dict(new.get("spec") or {}), dict(old.get("spec") or {})
    if not before.get("providerID"):
        after.pop("providerID", None)
        before.pop("providerID", None)
    changed = [field for field in after.keys() | before.keys() if after.get(field) != before.get(field)]
    return f"cannot change spec.{sorted(changed)[0]}" if changed else ""


def _is_node_label(name: str) -> bool:
    return name in _NODE_LABELS or _is_in(name, _NODE_DOMAINS)


def _is_in(label: str, domains: tuple[str, ...]) -> bool:
    """Whether a label's prefix is one of these domains or below one."""
    prefix, _, _ = label.rpartition("/")
    return any(prefix == domain or prefix.endswith(f".{domain}") for domain in domains)


def _claim_violation(attributes: Attributes) -> str:
    if attributes.operation is not Operation.UPDATE or attributes.subresource != "status":
        return "can only write the status of claims"
    return _status_violation(attributes.obj or {}, attributes.old or {}, _PROTECTED_CLAIM_STATUS)


def _volume_violation(node: str, attributes: Attributes) -> str:
    """A node may only remove the finalizer of its own deleted volumes, after wiping them."""
    new, old = attributes.obj or {}, attributes.old or {}
    if attributes.operation is not Operation.UPDATE or attributes.subresource:
        return "can only remove the finalizer of its own deleted volumes"
    if local_volumes.node_of(old) != node or "deletionTimestamp" not in old["metadata"]:
        return "can only remove the finalizer of its own deleted volumes"
    rest = [each for each in old["metadata"].get("finalizers") or () if each != local_volumes.FINALIZER]
    if (new["metadata"].get("finalizers") or []) != rest:
        return f"can only remove the finalizer {local_volumes.FINALIZER}"
    expected = {**old["metadata"], "finalizers": rest}
    is_same = _without_server_fields(new["metadata"]) == _without_server_fields(expected) and new.get(
        "spec"
    ) == old.get("spec")
    return "" if is_same else "cannot change volumes"


def _without_server_fields(metadata: Object) -> Object:
    """The metadata without fields that the server updates."""
    skipped = ("managedFields", "resourceVersion", "generation")
    compared = {field: value for field, value in metadata.items() if field not in skipped}
    return compared | {"finalizers": compared.get("finalizers") or []}


def _event_violation(node: str, attributes: Attributes) -> str:
    """A node may create and update only events that name it as their source."""
    for event in (attributes.old, attributes.obj):
        if event is not None and not _is_by(node, event):
            return "can only write events that name it as their source"
    return ""


def _is_by(node: str, event: Object) -> bool:
    sources = {objects.get(event, "source", "host"), event.get("reportingInstance")}
    return sources - {None, ""} == {node}


def check_token(
    reader: CacheReader, identity: Identity, tenant: TenantId, namespace: str, account: str, request: Object
) -> None:
    """A node may request only tokens that are bound to a pod on it, for the audiences of the pod's volumes.
    Raises Forbidden, with the same message for a pod on another node and for no pod.

    That the pod runs as this account and has the given uid is checked for every requester.
    """
    node = node_name(identity)
    if not node:
        return
    message = ""
    ref = objects.get(request, "spec", "boundObjectRef", default={})
    if ref.get("kind") != "Pod" or ref.get("apiVersion") not in ("v1", "", None) or not ref.get("uid"):
        message = "can only request tokens bound to a pod, by name and uid"
    else:
        pod = reader.get(tenant, PODS, namespace, ref.get("name") or "")
        if (
            pod is None
            or objects.get(pod, "spec", "nodeName") != node
            or pod["metadata"]["uid"] != ref["uid"]
        ):
            message = "can only request tokens of pods bound to itself"
        elif not _requested_audiences(request) <= podreferences.token_audiences(pod):
            message = "can only request tokens for the audiences of the pod's volumes"
    if message:
        raise Forbidden.of(SERVICE_ACCOUNTS, account, f'node "{node}" {message}')


def _requested_audiences(request: Object) -> set[str]:
    return set(objects.get(request, "spec", "audiences", default=None) or ("",))
