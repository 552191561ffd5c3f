"""The authorizer: decides by the roles and bindings of the caller's tenant, never of another.

- Access of a tenant's caller to another tenant, or to all, is denied without reading any role.
- Ring0's callers have in other tenants what ring0 grants them cluster-wide. A grant in one of ring0's
  namespaces is valid in that namespace only, not in other tenants' namespaces of the same name.
- `system:masters` may do everything in its tenant; ring0's masters in all tenants.
- Nodes are authorized by their pods, not by roles (`rbac/nodes.py`).
- Paths that concern the whole server (`/metrics`, …) are for ring0 only, whatever a tenant's roles allow.
"""

from msgspec import Struct

from alcove.api.errors import Details, Forbidden
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.apiserver.identity import MASTERS, Identity
from alcove.apiserver.rbac import defaults
from alcove.apiserver.rbac.access import Access
from alcove.apiserver.rbac.nodes import NodeAuthorizer, node_name
from alcove.apiserver.rbac.policy import AccessDecision, RbacPolicy, RbacQuery
from alcove.apiserver.rbac.rules import PolicyRule, quote
from alcove.apiserver.reader import CacheReader

__all__ = ["POLICIES_MAX", "TENANT_PATHS", "Access", "Authorizer", "forbidden"]

POLICIES_MAX = 4096

TENANT_PATHS = ("/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz", "/openid/v1/jwks")
"""Paths, with those below them, that belong to a tenant's API; all others concern the whole server."""

_ISSUER_PATH = "/.well-known/openid-configuration"
_DENIED = AccessDecision(False)
_MASTER = AccessDecision(True, "the caller is in system:masters")


class _Compiled(Struct, frozen=True):
    generations: tuple[int, int, int, int]
    policy: RbacPolicy


class Authorizer:
    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader
        self._nodes = NodeAuthorizer(reader)
        self._compiled: dict[TenantId, _Compiled] = {}

    def authorize(self, identity: Identity, access: Access) -> AccessDecision:
        is_same_tenant = access.tenant == identity.tenant
        if not is_same_tenant and identity.tenant != SYSTEM:
            return _DENIED
        if access.path and identity.tenant != SYSTEM and not _is_tenant_path(access.path):
            return _DENIED
        if MASTERS in identity.groups:
            return _MASTER
        if node := node_name(identity):
            decision = self._nodes.authorize(node, access)
            if decision is not None:
                return decision
        policy = self.policy(identity.tenant)
        # A namespace without bindings adds no grants: all such namespaces share one cached result.
        namespace = access.namespace if is_same_tenant and policy.binds_in(access.namespace) else ""
        query = RbacQuery(
            identity.user,
            identity.groups,
            access.verb,
            access.group,
            access.resource,
            access.subresource,
            namespace,
            access.path,
        )
        result = policy.results.get(query) or policy.evaluate(query)
        if result.always is not None:
            return result.always
        return result.by_name.get(access.name, result.otherwise)

    def allows(self, identity: Identity, access: Access) -> bool:
        return self.authorize(identity, access).allowed

    def require(self, identity: Identity, access: Access) -> AccessDecision:
        """Returns the decision if access is allowed, else raises Forbidden."""
        decision = self.authorize(identity, access)
        if not decision.allowed:
            raise forbidden(identity, access, decision)
        return decision

    def rules_for(self, identity: Identity, tenant: TenantId, namespace: str) -> list[PolicyRule]:
        """All rules that the caller has in a namespace of `tenant`, or cluster-wide if `namespace` is ""."""
        is_same_tenant = tenant == identity.tenant
        if not is_same_tenant and identity.tenant != SYSTEM:
            return []
        policy = self.policy(identity.tenant)
        held = policy.grants(identity.user, identity.groups, namespace if is_same_tenant else "")
        return list(dict.fromkeys(rule for grant in held for rule in grant.rules))

    def policy(self, tenant: TenantId) -> RbacPolicy:
        """The tenant's current compiled policy. Do not store it: it is replaced when an RBAC object
        changes."""
        generation = self._reader.generation
        generations = (
            generation(tenant, defaults.CLUSTER_ROLE_BINDINGS),
            generation(tenant, defaults.ROLE_BINDINGS),
            generation(tenant, defaults.CLUSTER_ROLES),
            generation(tenant, defaults.ROLES),
        )
        compiled = self._compiled.get(tenant)
        if compiled is None or compiled.generations != generations:
            if len(self._compiled) >= POLICIES_MAX:
                self._compiled.pop(next(iter(self._compiled)))
            compiled = self._compiled[tenant] = _Compiled(generations, RbacPolicy(tenant, self._reader))
        return compiled.policy


def _is_tenant_path(path: str) -> bool:
    if path.startswith(_ISSUER_PATH):
        return True
    return any(path == prefix or path.startswith(f"{prefix}/") for prefix in TENANT_PATHS)


def forbidden(identity: Identity, access: Access, decision: AccessDecision = _DENIED) -> Forbidden:
    """The 403 for a denial, with the message of Kubernetes."""
    reason = f": {decision.reason}" if decision.reason else ""
    if access.path:
        message = f"User {quote(identity.user)} cannot {access.verb} path {quote(access.path)}"
        return Forbidden(f"forbidden: {message}{reason}", Details())
    resource = f"{access.resource}/{access.subresource}" if access.subresource else access.resource
    message = (
        f"User {quote(identity.user)} cannot {access.verb} resource {quote(resource)}"
        f" in API group {quote(access.group)}{_where(identity, access)}{reason}"
    )
    return Forbidden.of(GroupResource(access.group, access.resource), access.name, message)


def _where(identity: Identity, access: Access) -> str:
    """The tenant is named if the access has no namespace, or if it is not the caller's tenant."""
    tenant = f" in the tenant {quote(access.tenant)}"
    if not access.namespace:
        return tenant
    namespace = f" in the namespace {quote(access.namespace)}"
    return namespace if access.tenant == identity.tenant else namespace + tenant
