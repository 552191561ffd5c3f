"""What a node writes is about itself and the pods bound to it.

Authorization knows a write's address; this plugin looks at what is written, and at the stored object of the
very attempt that is committed. A node that somebody has taken over gains no pods, labels, owners or claims by
what it says of itself.
"""

from alcove.api import local_volumes, objects
from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.kind import CLIENT_METADATA
from alcove.api.objects import Object
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.identity import Identity
from alcove.apiserver.rbac import podreferences
from alcove.apiserver.rbac.nodes import LEASE_NAMESPACE, PODS, node_name
from alcove.apiserver.rbac.podreferences import MIRROR
from alcove.apiserver.reader import CacheReader

NODES = GroupResource("", "nodes")
LEASES = GroupResource("coordination.k8s.io", "leases")
STORAGE_NODES = GroupResource("storage.k8s.io", "csinodes")
CLAIMS = GroupResource("", "persistentvolumeclaims")
VOLUMES = GroupResource("", "persistentvolumes")
SERVICE_ACCOUNTS = GroupResource("", "serviceaccounts")
EVENTS = GroupResource("", "events")
"""As they are stored, whichever group they were sent to."""
_HANDLED = frozenset((NODES, PODS, LEASES, STORAGE_NODES, CLAIMS, VOLUMES, EVENTS))

_RESERVED = ("kubernetes.io", "k8s.io")
"""Among these is `node-restriction.kubernetes.io`: what a node is trusted with, never the node's to say."""
_OWN_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_OWN_LABELS = frozenset(
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
"""Facts of its machine, which only the node knows."""

_POD_STATUS_OF_OTHERS = ("resourceClaimStatuses", "extendedResourceClaimStatus", "nominatedNodeName")
"""From these follow rights and places: the scheduler and the controllers write them."""
_CLAIM_STATUS_OF_OTHERS = ("phase", "accessModes")


class NodeRestriction(Plugin):
    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return resource in _HANDLED

    async def admit(self, attributes: Attributes) -> None:
        node = node_name(attributes.identity)
        # What others' webhooks made of the object in between is not the node's doing.
        if not node or attributes.is_reinvoked:
            return
        message = self._fault(node, attributes)
        if message:
            name = attributes.name or objects.name(attributes.obj or {})
            raise Forbidden.of(attributes.requested_resource, name, f'node "{node}" {message}')

    def _fault(self, node: str, attributes: Attributes) -> str:
        resource = attributes.resource
        if resource == PODS:
            return self._pod_fault(node, attributes)
        if resource == NODES:
            return _node_fault(node, attributes)
        if resource == LEASES:
            in_place = attributes.tenant == SYSTEM and attributes.namespace == LEASE_NAMESPACE
            return "" if in_place and attributes.name == node else "can only write its own lease"
        if resource == STORAGE_NODES:
            is_own = attributes.tenant == SYSTEM and attributes.name == node
            return "" if is_own else "can only write its own CSINode"
        if resource == CLAIMS:
            return _claim_fault(attributes)
        if resource == VOLUMES:
            return _volume_fault(node, attributes)
        return _event_fault(node, attributes)

    def _pod_fault(self, node: str, attributes: Attributes) -> str:
        if attributes.operation is Operation.CREATE and not attributes.subresource:
            return _mirror_fault(node, attributes.obj or {}, self._reader.get(SYSTEM, NODES, "", node))
        old = attributes.old or {}
        if objects.get(old, "spec", "nodeName") != node:
            return "can only write pods bound to itself"
        if attributes.operation is Operation.DELETE:
            return ""
        if attributes.operation is not Operation.UPDATE or attributes.subresource != "status":
            return "can only write the status of its pods"
        return _status_fault(attributes.obj or {}, old, _POD_STATUS_OF_OTHERS)


def _status_fault(new: Object, old: Object, of_others: tuple[str, ...]) -> str:
    """Others may change metadata beside a status; from labels and owners follow places and rights."""
    return _kept_fault(new, old, "metadata", CLIENT_METADATA) or _kept_fault(new, old, "status", of_others)


def _kept_fault(new: Object, old: Object, within: str, fields: tuple[str, ...]) -> str:
    for field in fields:
        if (objects.get(new, within, field) or None) != (objects.get(old, within, field) or None):
            return f"cannot change {within}.{field}"
    return ""


def _mirror_fault(node: str, pod: Object, own: Object | None) -> str:
    """A new pod must be one that the node runs already, without anything of the API's."""
    if MIRROR not in objects.annotations(pod):
        return "can only create mirror pods"
    if objects.get(pod, "spec", "nodeName") != node:
        return "can only create pods bound to itself"
    owners = objects.get(pod, "metadata", "ownerReferences", default=[])
    right = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": node,
        "uid": own["metadata"]["uid"] if own else None,
        "controller": True,
    }
    if len(owners) != 1 or {field: owners[0].get(field) for field in right} != right:
        return "can only create pods with itself as their one owner and controller"
    if owners[0].get("blockOwnerDeletion"):
        return "cannot create pods that keep it from being deleted"
    if podreferences.references(pod) or podreferences.token_audiences(pod):
        return "cannot create pods that refer to secrets, config maps, claims or service accounts"
    return ""


def _node_fault(node: str, attributes: Attributes) -> str:
    if attributes.tenant != SYSTEM or attributes.name != node:
        return "can only write its own Node"
    new, old = attributes.obj, attributes.old
    if new is None:
        return ""
    if old is None:
        return _new_node_fault(new)
    before, after = objects.labels(old), objects.labels(new)
    changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    if others := sorted(name for name in changed if not _is_own_label(name)):
        return f"cannot change labels that are not its own: {', '.join(others)}"
    return _kept_fault(new, old, "metadata", ("ownerReferences", "finalizers")) or _spec_fault(new, old)


def _new_node_fault(node: Object) -> str:
    """A node registers with its machine's labels and those of domains that are nobody's."""
    refused = sorted(
        name for name in objects.labels(node) if _is_in(name, _RESERVED) and not _is_own_label(name)
    )
    if refused:
        return f"cannot set labels that are not its own: {', '.join(refused)}"
    return _kept_fault(node, {}, "metadata", ("ownerReferences", "finalizers"))


def _spec_fault(new: Object, old: Object) -> str:
    """Taints, cordons and addresses of a registered node are ring0's; its machine's identity may come late."""
    after, before = dict(new.get("spec") or {}), dict(old.get("spec") or {})
    if not before.get("providerID"):
        after.pop("providerID", None)
        before.pop("providerID", None)
    changed = [field for field in after.keys() | before.keys() if after.get(field) != before.get(field)]
    return f"cannot change spec.{sorted(changed)[0]}" if changed else ""


def _is_own_label(name: str) -> bool:
    return name in _OWN_LABELS or _is_in(name, _OWN_DOMAINS)


def _is_in(label: str, domains: tuple[str, ...]) -> bool:
    """Whether a label's prefix is one of these domains or below one."""
    prefix, _, _ = label.rpartition("/")
    return any(prefix == domain or prefix.endswith(f".{domain}") for domain in domains)


def _claim_fault(attributes: Attributes) -> str:
    if attributes.operation is not Operation.UPDATE or attributes.subresource != "status":
        return "can only write the status of claims"
    return _status_fault(attributes.obj or {}, attributes.old or {}, _CLAIM_STATUS_OF_OTHERS)


def _volume_fault(node: str, attributes: Attributes) -> str:
    """That a volume of its own is wiped, and nothing else."""
    new, old = attributes.obj or {}, attributes.old or {}
    if attributes.operation is not Operation.UPDATE or attributes.subresource:
        return "can only say of its own volumes that they are wiped"
    if local_volumes.node_of(old) != node or "deletionTimestamp" not in old["metadata"]:
        return "can only say of its own volumes that they are wiped"
    rest = [each for each in old["metadata"].get("finalizers") or () if each != local_volumes.FINALIZER]
    if (new["metadata"].get("finalizers") or []) != rest:
        return f"can only take away the finalizer {local_volumes.FINALIZER}"
    kept = {**old["metadata"], "finalizers": rest}
    is_same = _without_times(new["metadata"]) == _without_times(kept) and new.get("spec") == old.get("spec")
    return "" if is_same else "cannot change volumes"


def _without_times(metadata: Object) -> Object:
    """Without what the server writes by itself."""
    skipped = ("managedFields", "resourceVersion", "generation")
    found = {field: value for field, value in metadata.items() if field not in skipped}
    return found | {"finalizers": found.get("finalizers") or []}


def _event_fault(node: str, attributes: Attributes) -> str:
    """It may say what it likes in its own name, and change only what it said."""
    for event in (attributes.old, attributes.obj):
        if event is not None and not _is_by(node, event):
            return "can only write events that name it as their source"
    return ""


def _is_by(node: str, event: Object) -> bool:
    told = {objects.get(event, "source", "host"), event.get("reportingInstance")}
    return told - {None, ""} == {node}


def check_token(
    reader: CacheReader, identity: Identity, tenant: TenantId, namespace: str, account: str, request: Object
) -> None:
    """A node gets tokens that die with a pod bound to it, for those whom the pod's volumes name. Raises
    Forbidden, in the same words for a pod elsewhere and for none.

    That the pod runs as this account, and has the uid that is named, is checked for every requester.
    """
    node = node_name(identity)
    if not node:
        return
    message = ""
    ref = objects.get(request, "spec", "boundObjectRef", default={})
    if ref.get("kind") != "Pod" or ref.get("apiVersion") not in ("v1", "", None) or not ref.get("uid"):
        message = "can only ask for tokens bound to a pod, by name and uid"
    else:
        pod = reader.get(tenant, PODS, namespace, ref.get("name") or "")
        if (
            pod is None
            or objects.get(pod, "spec", "nodeName") != node
            or pod["metadata"]["uid"] != ref["uid"]
        ):
            message = "can only ask for tokens of pods bound to itself"
        elif not _wanted_audiences(request) <= podreferences.token_audiences(pod):
            message = "can only ask for tokens for the audiences that the pod's volumes name"
    if message:
        raise Forbidden.of(SERVICE_ACCOUNTS, account, f'node "{node}" {message}')


def _wanted_audiences(request: Object) -> set[str]:
    return set(objects.get(request, "spec", "audiences", default=None) or ("",))
