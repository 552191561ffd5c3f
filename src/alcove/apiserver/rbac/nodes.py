"""Authorization of nodes: a node may do only what the pods bound to it require, in whichever tenant they are.

- It reads the secrets, config maps, claims and volumes that those pods reference, one by one, and the
  certificates of Ingresses that it serves for their tenants. It reads the pods themselves also by list and
  watch, if the field selector requires `spec.nodeName` to be this node.
- In tenants that have a pod on it, it reads what services, DNS and network policies need: of other nodes'
  pods only the metadata.
- It reads what ring0 has reserved on it for dedicated planes, and the credentials for foreign planes.
- It requests tokens and certificates for those pods, updates their status, deletes them, and maintains its own Node, CSINode, Lease and
  UsageReport.
- It reads a few kinds of ring0 by its role there. Nothing else is decided by roles.

A permission ends with the pod that it follows from, at the same revision. A denial does not reveal whether
the requested object exists.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct

from alcove.api import escrow, foreign_planes, local_volumes, objects, selectors
from alcove.api.errors import BadRequest
from alcove.api.ids import ALL, SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    INGRESS_CLASSES,
    INGRESSES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_CERTIFICATE_REQUESTS,
    PODS,
    VOLUME_ATTACHMENTS,
)
from alcove.apiserver.identity import Identity
from alcove.apiserver.rbac import podreferences
from alcove.apiserver.rbac.access import Access
from alcove.apiserver.rbac.podreferences import Reference
from alcove.apiserver.rbac.policy import AccessDecision
from alcove.apiserver.reader import CacheReader

NODES_GROUP = "system:nodes"
NODE_USER_PREFIX = "system:node:"
LEASE_NAMESPACE = "kube-node-lease"

NEEDS_MAX = 8192
"""(tenant, node) pairs whose needs are cached."""

_INGRESS_CLASS, _INGRESS_CONTROLLER = "alcove", "alcove.io/ingress"
_INGRESS_ANNOTATION = "kubernetes.io/ingress.class"
"""Ingresses that nodes serve: of that class, or of one that names that controller."""

_READ = frozenset(("get", "list", "watch"))
_STATUS = frozenset(("get", "patch", "update"))
_EVENTS = frozenset(("create", "patch", "update"))
_NODE = _READ | _EVENTS
_KEEP = frozenset(("create", "delete", "get", "patch", "update"))
_REPORT = frozenset(("create", "get", "update"))

_ALLOWED = AccessDecision(True, "a pod on the node requires it")
_SELF = AccessDecision(True, "the object belongs to the node")
_DENIED = AccessDecision(False, "no pod on the node requires it")


def node_name(identity: Identity) -> str:
    """The name of the node that the caller is; "" for other callers. Only identities of ring0 are nodes."""
    if identity.tenant != SYSTEM or NODES_GROUP not in identity.groups:
        return ""
    return identity.user.removeprefix(NODE_USER_PREFIX) if identity.user.startswith(NODE_USER_PREFIX) else ""


class _Needs(Struct, frozen=True):
    """What the pods of one tenant on one node require, at one generation of those pods."""

    generation: int
    pods: dict[tuple[str, str], tuple[Object, frozenset[Reference]]]
    """By (namespace, name)."""
    references: frozenset[Reference]
    claims: tuple[Reference, ...]
    """The references that are claims: their volumes may reference further secrets."""


_NOTHING = _Needs(0, {}, frozenset(), ())

_Rule = Callable[["NodeAuthorizer", str, Access], AccessDecision | None]
"""(authorizer, node, access) → the decision; None if roles decide."""


class NodeAuthorizer:
    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader
        self._needs: dict[tuple[TenantId, str], _Needs] = {}

    def authorize(self, node: str, access: Access) -> AccessDecision | None:
        """The decision; None if the roles of ring0 decide."""
        if access.path:
            return None if self._is_present(node, access.tenant) else _DENIED
        resource = f"{access.resource}/{access.subresource}" if access.subresource else access.resource
        rule = _RULES.get((access.group, resource))
        return _DENIED if rule is None else rule(self, node, access)

    def needs(self, tenant: TenantId, node: str) -> _Needs:
        generation = self._reader.indexed_generation(tenant, PODS, node)
        if not generation:
            # Not cached: clients can send any tenant name.
            self._needs.pop((tenant, node), None)
            return _NOTHING
        cached = self._needs.get((tenant, node), _NOTHING)
        if cached.generation != generation:
            cached = _needs(generation, self._reader.indexed(tenant, PODS, node), cached)
            self._needs.pop((tenant, node), None)
            if len(self._needs) >= NEEDS_MAX:
                self._needs.pop(next(iter(self._needs)))
            self._needs[tenant, node] = cached
        return cached

    def _is_present(self, node: str, tenant: TenantId) -> bool:
        """Whether the tenant is ring0 or has a pod on the node."""
        return tenant == SYSTEM or bool(self.needs(tenant, node).pods)

    # Rules

    def _named_by_pod(self, node: str, access: Access) -> AccessDecision:
        """Objects that a pod references, one at a time: by name, or by a list or watch of one
        `metadata.name`."""
        if access.verb not in _READ or not access.name:
            return _DENIED
        return _ALLOWED if self._is_named(node, access) else _DENIED

    def _secret(self, node: str, access: Access) -> AccessDecision:
        is_plane = access.tenant == SYSTEM and access.namespace == foreign_planes.NAMESPACE
        if is_plane and access.verb in _READ:
            return _ALLOWED
        return self._named_by_pod(node, access)

    def _config_map(self, node: str, access: Access) -> AccessDecision:
        is_record = access.tenant == SYSTEM and access.namespace == escrow.NAMESPACE
        if is_record and access.verb == "get" and access.name == node:
            return _SELF
        return self._named_by_pod(node, access)

    def _is_named(self, node: str, access: Access) -> bool:
        reference = (access.resource, access.namespace, access.name)
        needs = self.needs(access.tenant, node)
        if reference in needs.references:
            return True
        if access.resource != podreferences.SECRETS:
            return False
        return self._is_of_volume(access.tenant, needs, reference) or (
            bool(needs.pods) and self._is_of_ingress(access.tenant, access.namespace, access.name)
        )

    def _is_of_ingress(self, tenant: TenantId, namespace: str, name: str) -> bool:
        """Whether it is the certificate of an Ingress: nodes serve the Ingresses of tenants that have a pod
        there."""
        return any(
            tls.get("secretName") == name
            for ingress in self._reader.list(tenant, INGRESSES, namespace)
            for tls in objects.get(ingress, "spec", "tls", default=())
            if self._is_served(tenant, ingress)
        )

    def _is_served(self, tenant: TenantId, ingress: Object) -> bool:
        annotated = objects.annotations(ingress).get(_INGRESS_ANNOTATION, "")
        class_name = objects.get(ingress, "spec", "ingressClassName", default=annotated)
        ingress_class = self._reader.get(tenant, INGRESS_CLASSES, "", class_name) if class_name else None
        return class_name == _INGRESS_CLASS or (
            ingress_class is not None
            and objects.get(ingress_class, "spec", "controller") == _INGRESS_CONTROLLER
        )

    def _is_of_volume(self, tenant: TenantId, needs: _Needs, reference: Reference) -> bool:
        for _, namespace, name in needs.claims:
            volume = self._volume(tenant, namespace, name)
            if volume is not None and reference in podreferences.volume_secrets(volume):
                return True
        return False

    def _volume(self, tenant: TenantId, namespace: str, claim_name: str) -> Object | None:
        """The volume bound to a claim; None unless claim and volume reference each other."""
        claim = self._reader.get(tenant, PERSISTENT_VOLUME_CLAIMS, namespace, claim_name)
        name = objects.get(claim, "spec", "volumeName", default="") if claim else ""
        volume = self._reader.get(tenant, PERSISTENT_VOLUMES, "", name) if name else None
        ref = objects.get(volume, "spec", "claimRef", default={}) if volume else {}
        return volume if (ref.get("namespace"), ref.get("name")) == (namespace, claim_name) else None

    def _volumes(self, node: str, access: Access) -> AccessDecision:
        """The node's local volumes, which it erases when they are deleted, and those of the pods on it."""
        if access.verb in ("list", "watch") and _selects_local_volumes(access.labels, node):
            return _SELF
        volume = self._reader.get(access.tenant, PERSISTENT_VOLUMES, "", access.name) if access.name else None
        if volume is not None and local_volumes.node_of(volume) == node and access.verb in ("get", "patch"):
            return _SELF
        return self._volume_of_pod(node, access)

    def _volume_of_pod(self, node: str, access: Access) -> AccessDecision:
        if access.verb not in _READ or not access.name:
            return _DENIED
        volume = self._reader.get(access.tenant, PERSISTENT_VOLUMES, "", access.name)
        ref = objects.get(volume, "spec", "claimRef", default={}) if volume else {}
        namespace, claim = ref.get("namespace") or "", ref.get("name") or ""
        is_named = (PERSISTENT_VOLUME_CLAIMS.resource, namespace, claim) in self.needs(
            access.tenant, node
        ).references
        return _ALLOWED if is_named and self._volume(access.tenant, namespace, claim) is volume else _DENIED

    def _claim_status(self, node: str, access: Access) -> AccessDecision:
        return _ALLOWED if access.verb in _STATUS and self._is_named(node, access) else _DENIED

    def _service_account(self, node: str, access: Access) -> AccessDecision:
        """Certificates of pods name its uid."""
        return _ALLOWED if access.verb == "get" and self._is_named(node, access) else _DENIED

    def _token(self, node: str, access: Access) -> AccessDecision:
        """The pod that the token is bound to is in the body, and is checked by admission."""
        return _ALLOWED if access.verb == "create" and self._is_named(node, access) else _DENIED

    def _pods(self, node: str, access: Access) -> AccessDecision:
        match access.verb:
            case "list" | "watch":
                if access.metadata_only and self._has_pod(node, access.tenant):
                    return _ALLOWED  # Network policies select peers on other nodes by labels.
                return _ALLOWED if _selects_node(access.fields, node) else _DENIED
            case "create":
                # Static pods, in ring0 only; admission checks that the object is a mirror pod.
                return _ALLOWED if access.tenant == SYSTEM else _DENIED
            case "get" | "delete":
                return self._bound_pod(node, access)
        return _DENIED

    def _pod_status(self, node: str, access: Access) -> AccessDecision:
        return self._bound_pod(node, access) if access.verb in _STATUS else _DENIED

    def _eviction(self, node: str, access: Access) -> AccessDecision:
        return self._bound_pod(node, access) if access.verb == "create" else _DENIED

    def _bound_pod(self, node: str, access: Access) -> AccessDecision:
        is_bound = (access.namespace, access.name) in self.needs(access.tenant, node).pods
        return _ALLOWED if is_bound else _DENIED

    def _read_in_tenant(self, node: str, access: Access) -> AccessDecision:
        is_read = access.verb in _READ
        return _ALLOWED if is_read and self._has_pod(node, access.tenant) else _DENIED

    def _runtime_class(self, node: str, access: Access) -> AccessDecision:
        """Every node reads ring0's RuntimeClasses, which define the isolation that tenants may choose."""
        is_read = access.verb in _READ
        return _ALLOWED if is_read and self._is_present(node, access.tenant) else _DENIED

    def _has_pod(self, node: str, tenant: TenantId) -> bool:
        return bool(self.needs(tenant, node).pods)

    def _events(self, node: str, access: Access) -> AccessDecision:
        is_write = access.verb in _EVENTS
        return _ALLOWED if is_write and self._is_present(node, access.tenant) else _DENIED

    def _node(self, node: str, access: Access) -> AccessDecision:
        return _self_access(node, access, _NODE)

    def _node_status(self, node: str, access: Access) -> AccessDecision:
        return _self_access(node, access, _STATUS)

    def _storage_node(self, node: str, access: Access) -> AccessDecision:
        return _self_access(node, access, _KEEP)

    def _usage_report(self, node: str, access: Access) -> AccessDecision:
        return _self_access(node, access, _REPORT)

    def _lease(self, node: str, access: Access) -> AccessDecision:
        return _self_access(node, access, _KEEP) if access.namespace == LEASE_NAMESPACE else _DENIED

    def _attachment(self, node: str, access: Access) -> AccessDecision:
        if access.verb not in _READ or not access.name:
            return _DENIED
        attachment = self._reader.get(access.tenant, VOLUME_ATTACHMENTS, "", access.name)
        return _ALLOWED if attachment and objects.get(attachment, "spec", "nodeName") == node else _DENIED

    def _certificate_request(self, node: str, access: Access) -> AccessDecision | None:
        """Creating needs a role; only the requester may read the request."""
        if access.tenant != SYSTEM:
            return _DENIED
        if access.verb == "create":
            return None
        csr = (
            self._reader.get(SYSTEM, CERTIFICATE_SIGNING_REQUESTS, "", access.name)
            if access.verb in _READ
            else None
        )
        requester = objects.get(csr, "spec", "username") if csr else None
        return _SELF if requester == NODE_USER_PREFIX + node else _DENIED

    def _pod_certificate(self, node: str, access: Access) -> AccessDecision:
        """The pod that a new request is for is in the body, and is checked by admission."""
        if access.verb == "create":
            return _ALLOWED if self._is_present(node, access.tenant) else _DENIED
        if access.verb != "get" or not access.name:
            return _DENIED
        request = self._reader.get(access.tenant, POD_CERTIFICATE_REQUESTS, access.namespace, access.name)
        return _SELF if request and objects.get(request, "spec", "nodeName") == node else _DENIED

    def _ring0_read(self, _node: str, access: Access) -> AccessDecision | None:
        return None if access.verb in _READ and access.tenant in (SYSTEM, ALL) else _DENIED

    def _ring0_create(self, _node: str, access: Access) -> AccessDecision | None:
        return None if access.verb == "create" and access.tenant == SYSTEM else _DENIED


def _needs(generation: int, current_pods: Iterable[Object], before: _Needs) -> _Needs:
    """The needs of these pods. Only changed pods are read again; most changes are of the status and add no
    reference."""
    pods: dict[tuple[str, str], tuple[Object, frozenset[Reference]]] = {}
    is_same = True
    for pod in current_pods:
        metadata = pod["metadata"]
        pod_key = (metadata.get("namespace", ""), metadata["name"])
        cached = before.pods.get(pod_key)
        if cached is None or cached[0] is not pod:
            references_of_pod = _references(pod)
            is_same = is_same and cached is not None and cached[1] == references_of_pod
            cached = (pod, references_of_pod)
        pods[pod_key] = cached
    if is_same and len(pods) == len(before.pods):
        return _Needs(generation, pods, before.references, before.claims)
    references = frozenset(each for _, of_pod in pods.values() for each in of_pod)
    claims = tuple(each for each in references if each[0] == podreferences.CLAIMS)
    return _Needs(generation, pods, references, claims)


def _references(pod: Object) -> frozenset[Reference]:
    return frozenset() if podreferences.MIRROR in objects.annotations(pod) else podreferences.references(pod)


def _self_access(node: str, access: Access, verbs: frozenset[str]) -> AccessDecision:
    """An object in ring0 with the node's name. The name of a new object is checked by admission."""
    is_self = access.tenant == SYSTEM and (access.verb == "create" or access.name == node)
    return _SELF if is_self and access.verb in verbs else _DENIED


def _selects_node(fields: str, node: str) -> bool:
    """Whether a field selector selects only objects on the node."""
    try:
        terms = selectors.parse_fields(fields).terms
    except BadRequest:
        return False
    node_terms = [term for term in terms if term.field == "spec.nodeName"]
    return bool(node_terms) and all(term.equal and term.value == node for term in node_terms)


def _selects_local_volumes(labels: str, node: str) -> bool:
    return labels in (f"{local_volumes.NODE_LABEL}={node}", f"{local_volumes.NODE_LABEL}=={node}")


_RULES: dict[tuple[str, str], _Rule] = {
    ("", "secrets"): NodeAuthorizer._secret,
    ("", "configmaps"): NodeAuthorizer._config_map,
    ("", "persistentvolumeclaims"): NodeAuthorizer._named_by_pod,
    ("", "persistentvolumeclaims/status"): NodeAuthorizer._claim_status,
    ("", "persistentvolumes"): NodeAuthorizer._volumes,
    ("", "serviceaccounts"): NodeAuthorizer._service_account,
    ("", "serviceaccounts/token"): NodeAuthorizer._token,
    ("resource.k8s.io", "resourceclaims"): NodeAuthorizer._named_by_pod,
    ("storage.k8s.io", "volumeattachments"): NodeAuthorizer._attachment,
    ("", "pods"): NodeAuthorizer._pods,
    ("", "pods/status"): NodeAuthorizer._pod_status,
    ("", "pods/eviction"): NodeAuthorizer._eviction,
    ("", "events"): NodeAuthorizer._events,
    ("events.k8s.io", "events"): NodeAuthorizer._events,
    ("", "endpoints"): NodeAuthorizer._read_in_tenant,
    ("", "namespaces"): NodeAuthorizer._read_in_tenant,
    ("", "networks"): NodeAuthorizer._read_in_tenant,
    ("", "services"): NodeAuthorizer._read_in_tenant,
    ("arktos.futurewei.com", "networks"): NodeAuthorizer._read_in_tenant,
    ("discovery.k8s.io", "endpointslices"): NodeAuthorizer._read_in_tenant,
    ("certificates.k8s.io", "clustertrustbundles"): NodeAuthorizer._read_in_tenant,
    ("networking.k8s.io", "ingressclasses"): NodeAuthorizer._read_in_tenant,
    ("networking.k8s.io", "ingresses"): NodeAuthorizer._read_in_tenant,
    ("networking.k8s.io", "networkpolicies"): NodeAuthorizer._read_in_tenant,
    ("node.k8s.io", "runtimeclasses"): NodeAuthorizer._runtime_class,
    ("scheduling.k8s.io", "priorityclasses"): NodeAuthorizer._read_in_tenant,
    ("storage.k8s.io", "csidrivers"): NodeAuthorizer._read_in_tenant,
    ("storage.k8s.io", "storageclasses"): NodeAuthorizer._read_in_tenant,
    ("", "nodes"): NodeAuthorizer._node,
    ("", "nodes/status"): NodeAuthorizer._node_status,
    ("storage.k8s.io", "csinodes"): NodeAuthorizer._storage_node,
    ("coordination.k8s.io", "leases"): NodeAuthorizer._lease,
    ("certificates.k8s.io", "podcertificaterequests"): NodeAuthorizer._pod_certificate,
    ("usage.alcove.io", "usagereports"): NodeAuthorizer._usage_report,
    ("certificates.k8s.io", "certificatesigningrequests"): NodeAuthorizer._certificate_request,
    ("certificates.k8s.io", "certificatesigningrequests/selfnodeclient"): NodeAuthorizer._ring0_create,
    ("", "tenants"): NodeAuthorizer._ring0_read,
    ("mizar.com", "bouncers"): NodeAuthorizer._ring0_read,
    ("mizar.com", "dividers"): NodeAuthorizer._ring0_read,
    ("mizar.com", "droplets"): NodeAuthorizer._ring0_read,
    ("mizar.com", "endpoints"): NodeAuthorizer._ring0_read,
    ("mizar.com", "subnets"): NodeAuthorizer._ring0_read,
    ("mizar.com", "vpcs"): NodeAuthorizer._ring0_read,
    ("authentication.k8s.io", "tokenreviews"): NodeAuthorizer._ring0_create,
    ("authentication.k8s.io", "selfsubjectreviews"): NodeAuthorizer._ring0_create,
    ("authorization.k8s.io", "subjectaccessreviews"): NodeAuthorizer._ring0_create,
    ("authorization.k8s.io", "localsubjectaccessreviews"): NodeAuthorizer._ring0_create,
    ("authorization.k8s.io", "selfsubjectaccessreviews"): NodeAuthorizer._ring0_create,
    ("authorization.k8s.io", "selfsubjectrulesreviews"): NodeAuthorizer._ring0_create,
}
"""All resources that a node may access."""
