"""The authorizer: decides by the roles and bindings of the caller's tenant, never of another.

- Access of a tenant's caller to another tenant, or to all, is denied without reading any role.
- Ring0's callers have in other tenants what ring0 grants them cluster-wide. A grant in one of ring0's
  namespaces is valid in that namespace only, not in other tenants' namespaces of the same name.
- `system:masters` may do everything in its tenant; ring0's masters in all tenants.
- Nodes are authorized by their pods, not by roles (`rbac/nodes.py`).
- Paths that concern the whole server are for ring0 only, whatever a tenant's roles allow. `/metrics` has a tenant's own.

A tenant's roles are compiled when they have changed. Where that takes long, it is done in a thread, before the request
is decided: `require(…, now=True)` raises NotCompiled, and `compile` does it. Whatever else is decided during a
request is decided by roles that are not older than the request.
"""

from collections.abc import Awaitable, Callable
from itertools import count

from msgspec import Struct

from alcove.api.errors import Details, Forbidden
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.apiserver.identity import MASTERS, Identity
from alcove.apiserver.rbac import defaults
from alcove.apiserver.rbac.access import Access
from alcove.apiserver.rbac.nodes import NodeAuthorizer, node_name
from alcove.apiserver.rbac.policy import (
    LARGE_BYTES,
    LARGE_OBJECTS,
    AccessDecision,
    RbacGrant,
    RbacPolicy,
    RbacQuery,
)
from alcove.apiserver.rbac.rules import quote
from alcove.apiserver.reader import CacheReader

__all__ = ["POLICIES_MAX", "TENANT_PATHS", "Access", "Authorizer", "NotCompiled", "forbidden"]

POLICIES_MAX = 4096

TENANT_PATHS = (
    *("/api", "/apis", "/metrics", "/openapi", "/openid/v1/jwks"),
    *("/version", "/healthz", "/livez", "/readyz"),
)
"""Paths, with those below them, that belong to a tenant's API; all others concern the whole server."""

_ISSUER_PATH = "/.well-known/openid-configuration"
_DENIED = AccessDecision(False)
_MASTER = AccessDecision(True, "the caller is in system:masters")
_RESOURCES = (
    defaults.CLUSTER_ROLE_BINDINGS,
    defaults.ROLE_BINDINGS,
    defaults.CLUSTER_ROLES,
    defaults.ROLES,
)


class NotCompiled(Exception):
    """The tenant's roles have changed, and it takes long to compile them."""

    def __init__(self, tenant: TenantId) -> None:
        super().__init__(tenant)
        self.tenant = tenant


class _Compiled(Struct, frozen=True):
    generations: tuple[int, ...]
    number: int
    """Of its snapshot: that of a later one is larger."""
    policy: RbacPolicy


class Authorizer:
    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader
        self._nodes = NodeAuthorizer(reader)
        self._compiled: dict[TenantId, _Compiled] = {}
        self._numbers = count(1)

    def authorize(self, identity: Identity, access: Access, *, now: bool = False) -> AccessDecision:
        """`now`: by the roles as they are now, even if they are large. Raises NotCompiled only then."""
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
        policy = self.policy(identity.tenant, now=now)
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

    def require(self, identity: Identity, access: Access, *, now: bool = False) -> AccessDecision:
        """Returns the decision if access is allowed, else raises Forbidden. For `now` see `authorize`."""
        decision = self.authorize(identity, access, now=now)
        if not decision.allowed:
            raise forbidden(identity, access, decision)
        return decision

    def stamp(self, identity: Identity) -> tuple[int, ...] | None:
        """As long as it is the same, so is every decision about the caller. None if decisions depend on more than roles."""
        if MASTERS in identity.groups:
            return ()
        return None if node_name(identity) else self._reader.generations(identity.tenant, _RESOURCES)

    def grants_for(self, identity: Identity, tenant: TenantId, namespace: str) -> tuple[RbacGrant, ...]:
        """All grants to the caller in a namespace of `tenant`, or cluster-wide if `namespace` is ""."""
        is_same_tenant = tenant == identity.tenant
        if not is_same_tenant and identity.tenant != SYSTEM:
            return ()
        policy = self.policy(identity.tenant)
        return tuple(policy.grants(identity.user, identity.groups, namespace if is_same_tenant else ""))

    def policy(self, tenant: TenantId, *, now: bool = False) -> RbacPolicy:
        """The tenant's current compiled policy. Do not store it: it is replaced when an RBAC object
        changes. A large policy may be the one before the last change, unless `now`; raises NotCompiled then."""
        generations = self._reader.generations(tenant, _RESOURCES)
        compiled = self._compiled.get(tenant)
        if compiled is not None and compiled.generations == generations:
            return compiled.policy
        if compiled is not None and compiled.policy.is_large:
            if now:
                raise NotCompiled(tenant)
            return compiled.policy
        snapshot = self._reader.snapshot(tenant, _RESOURCES)
        is_large = snapshot.exceeds(LARGE_OBJECTS, LARGE_BYTES)
        if is_large and now:
            raise NotCompiled(tenant)
        if len(self._compiled) >= POLICIES_MAX:
            # A copy of the keys: threads add policies.
            self._compiled.pop(next(iter(tuple(self._compiled))), None)
        previous = None if compiled is None else compiled.policy
        policy = RbacPolicy(tenant, snapshot, previous=previous, is_large=is_large)
        self._compiled[tenant] = _Compiled(generations, next(self._numbers), policy)
        return policy

    async def compile(
        self, tenant: TenantId, run: Callable[[TenantId, Callable[[], None]], Awaitable[None]]
    ) -> None:
        """Compiles a large policy by `run`, which calls a function in a thread for a tenant. Raises what `run`
        raises."""
        generations, number = self._reader.generations(tenant, _RESOURCES), next(self._numbers)
        snapshot = self._reader.snapshot(tenant, _RESOURCES)

        def compile_unless_done() -> None:
            done = self._compiled.get(tenant)
            if done is None or done.number < number:
                is_large = snapshot.exceeds(LARGE_OBJECTS, LARGE_BYTES)
                previous = None if done is None else done.policy
                policy = RbacPolicy(tenant, snapshot, previous=previous, is_large=is_large)
                self._compiled[tenant] = _Compiled(generations, number, policy)

        await run(tenant, compile_unless_done)


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
