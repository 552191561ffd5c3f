"""Shares of node ports and external addresses, which all tenants take from the same pools. Pure: no I/O.

What a service has is never taken from it, so a share cannot be computed from what others want later. Instead a
tenant may hold as many as are still free: the first gets half of a pool at most, the next half of the rest, and
one that holds none gets one as long as there is any.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from alcove.api import objects, quantity
from alcove.api.kinds.mizar import NODE_PORT
from alcove.api.objects import Object
from alcove.api.quantity import QuantityError
from alcove.network.owners import OwnerRef
from alcove.vpc.claims import claimed_port
from alcove.vpc.errors import AddressUnavailable
from alcove.vpc.vpc_cache import spec_of

NODE_PORTS_PER_TENANT_MAX = 256
"""Node ports that one tenant's services may hold, unless `spec.quota.hard` of its Tenant has `services.nodeports`.
The Service that wants more gets the event FailedProvision."""
NODE_PORTS, BALANCERS = "services.nodeports", "services.loadbalancers"


class ShareExceeded(AddressUnavailable):
    """The tenant has its share of a pool; others may still get something of it."""


class PoolUse(Struct, frozen=True):
    """A tenant's use of a pool."""

    resource: str
    """The name of the resource, as in a ResourceQuota."""
    used: int
    free: int
    """What nobody holds."""


def check_share(use: PoolUse, requested: int) -> None:
    """Raises ShareExceeded if the tenant would hold more than what then is free, unless it is its first."""
    most = (use.used + use.free) // 2
    if use.used + requested > max(most, 1):
        raise _exceeded(use.resource, requested, use.used, max(most, 1))


def check_limit(resource: str, requested: int, used: int, limit: int) -> None:
    """Raises ShareExceeded."""
    if requested and used + requested > limit:
        raise _exceeded(resource, requested, used, limit)


def _exceeded(resource: str, requested: int, used: int, limit: int) -> ShareExceeded:
    return ShareExceeded(
        f"exceeded quota: tenant share, requested: {resource}={requested}, used: {resource}={used}, "
        f"limited: {resource}={limit}"
    )


def node_port_limit(tenant: Object | None) -> int:
    """The most node ports that the services of this tenant may hold."""
    hard = objects.get(tenant or {}, "spec", "quota", "hard", default={}).get(NODE_PORTS)
    try:
        return quantity.whole(hard) if hard is not None else NODE_PORTS_PER_TENANT_MAX
    except QuantityError:
        return NODE_PORTS_PER_TENANT_MAX


def pool_and_tenant(endpoint: Object) -> Iterable[str]:
    """An index of node ports and external addresses: by pool, and by pool and tenant. The pool of a node port
    is its protocol, that of an address its subnet."""
    if spec_of(endpoint, "type") != NODE_PORT:
        return ()
    port = claimed_port(objects.name(endpoint))
    pool = port[1] if port is not None else spec_of(endpoint, "net")
    ref = OwnerRef.parse(spec_of(endpoint, "pod"))
    return (pool, f"{pool}/{ref.tenant}") if ref is not None else (pool,)
