"""A store in which tenants can be closed: as long as a tenant's closure exists, none of its objects can be written.

A tenant that moves to another store is closed in one of the two at any time, so only one ever accepts writes. The closure is a
Lease of ring0, created and deleted through the API like any other. That it does not exist is part of every transaction that
writes objects of the tenant: a write that was on its way when the tenant was closed fails, whatever its server knew.

A transaction that keeps the closure itself, at its revision, is allowed only while the tenant is closed: this is how its objects
are copied and removed.
"""

from collections.abc import Sequence

from alcove.api.ids import SYSTEM, Key, Revision, TenantId
from alcove.api.resources import LEASES
from alcove.api.tenant_closures import NAMESPACE, closure_name, tenant_of
from alcove.store.base import ABSENT, RevisionMismatch, StoreUnavailable, WriteOp
from alcove.store.layer import StoreLayer


class TenantClosed(StoreUnavailable):
    """The tenant is moving to another store, or has moved there. Nothing was written."""

    def __init__(self, tenant: TenantId) -> None:
        super().__init__(f'tenant "{tenant}" is moving to another API server')
        self.tenant = tenant


def closure(tenant: TenantId) -> Key:
    return Key(LEASES, SYSTEM, NAMESPACE, closure_name(tenant))


def closed_tenant(key: Key) -> TenantId | None:
    """The tenant whose closure the key is; None if it is another object."""
    if key.resource != LEASES or key.tenant != SYSTEM or key.namespace != NAMESPACE:
        return None
    return tenant_of(key.name)


class ClosableStore(StoreLayer):
    async def write(self, ops: Sequence[WriteOp]) -> Revision:
        """Raises TenantClosed."""
        guards = [WriteOp(key, None, ABSENT, keeps=True) for key in _closures(ops)]
        try:
            return await self.inner.write([*ops, *guards] if guards else ops)
        except RevisionMismatch as mismatch:
            tenant = closed_tenant(mismatch.key) if guards else None
            if tenant is None or all(guard.key != mismatch.key for guard in guards):
                raise
            raise TenantClosed(tenant) from mismatch


def _closures(ops: Sequence[WriteOp]) -> list[Key]:
    """The closures that must not exist: those of the tenants that are written to, unless the transaction names them itself."""
    if len(ops) == 1:
        first = ops[0].key.tenant
        return [closure(first)] if first != SYSTEM else []
    tenants = dict.fromkeys([op.key.tenant for op in ops if op.key.tenant != SYSTEM and not op.keeps])
    if not tenants:
        return []
    named = {op.key for op in ops if op.key.resource == LEASES}
    return [key for tenant in tenants if (key := closure(tenant)) not in named]
