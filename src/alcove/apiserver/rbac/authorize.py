"""May this caller do this? Decided by the roles and bindings of the caller's own tenant, always.

- A tenant's caller that asks for another tenant, or for all, is denied: no role is even read.
- Ring0's callers reach other tenants by what ring0 grants them cluster-wide. What ring0 grants in one of
  its namespaces holds in that namespace only, not in other tenants' namespaces of the same name.
- `system:masters` may do everything in its own tenant; ring0's masters everywhere.
- A node is not asked for its roles but for its pods (`rbac/nodes.py`).
- Paths that show the whole server (`/metrics`, …) are ring0's, whatever a tenant's roles say.
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
"""Paths (and what is below them) that a tenant's own API has; the rest is the server's."""

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
        own = access.tenant == identity.tenant
        if not own and identity.tenant != SYSTEM:
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
        # A namespace without bindings adds nothing: one verdict then serves all such namespaces.
        namespace = access.namespace if own and policy.binds_in(access.namespace) else ""
        question = RbacQuery(
            identity.user,
            identity.groups,
            access.verb,
            access.group,
            access.resource,
            access.subresource,
            namespace,
            access.path,
        )
        verdict = policy.verdicts.get(question) or policy.judge(question)
        if verdict.always is not None:
            return verdict.always
        return verdict.by_name.get(access.name, verdict.otherwise)

    def allows(self, identity: Identity, access: Access) -> bool:
        return self.authorize(identity, access).allowed

    def require(self, identity: Identity, access: Access) -> AccessDecision:
        """The decision, if it is to allow. Raises Forbidden."""
        decision = self.authorize(identity, access)
        if not decision.allowed:
            raise forbidden(identity, access, decision)
        return decision

    def rules_for(self, identity: Identity, tenant: TenantId, namespace: str) -> list[PolicyRule]:
        """Every rule that the caller holds in a namespace of `tenant`; "": cluster-wide."""
        own = tenant == identity.tenant
        if not own and identity.tenant != SYSTEM:
            return []
        policy = self.policy(identity.tenant)
        held = policy.grants(identity.user, identity.groups, namespace if own else "")
        return list(dict.fromkeys(rule for grant in held for rule in grant.rules))

    def policy(self, tenant: TenantId) -> RbacPolicy:
        """The tenant's compiled policy, of this moment: do not keep it."""
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
    return any(path == known or path.startswith(f"{known}/") for known in TENANT_PATHS)


def forbidden(identity: Identity, access: Access, decision: AccessDecision = _DENIED) -> Forbidden:
    """The 403 for a denial, in the words scripts know."""
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
    """The tenant is told where it is the whole answer, and where it is not the caller's own."""
    tenant = f" in the tenant {quote(access.tenant)}"
    if not access.namespace:
        return tenant
    namespace = f" in the namespace {quote(access.namespace)}"
    return namespace if access.tenant == identity.tenant else namespace + tenant
