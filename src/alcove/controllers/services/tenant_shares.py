"""What the services of each tenant hold of the pools that all tenants share (`api/pool_shares.py`)."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects, pool_shares
from alcove.api.kinds.mizar import NODE_PORT
from alcove.api.node_ports import claimed_port
from alcove.api.objects import Object
from alcove.api.pool_shares import PoolUse
from alcove.network.owners import OwnerRef
from alcove.vpc.errors import AddressUnavailable
from alcove.vpc.vpc_cache import spec_of

BALANCERS = "services.loadbalancers"


class ShareExceeded(AddressUnavailable):
    """The tenant has its share of a pool; others may still get something of it."""


def check_share(use: PoolUse, requested: int) -> None:
    """Raises ShareExceeded."""
    if message := pool_shares.share_exceeded(use, requested):
        raise ShareExceeded(message)


def check_limit(resource: str, requested: int, used: int, limit: int) -> None:
    """Raises ShareExceeded."""
    if message := pool_shares.limit_exceeded(resource, requested, used, limit):
        raise ShareExceeded(message)


def pool_and_tenant(endpoint: Object) -> Iterable[str]:
    """An index of node ports and external addresses: by pool, and by pool and tenant. The pool of a node port
    is its protocol, that of an address its subnet."""
    if spec_of(endpoint, "type") != NODE_PORT:
        return ()
    port = claimed_port(objects.name(endpoint))
    pool = port[1] if port is not None else spec_of(endpoint, "net")
    ref = OwnerRef.parse(spec_of(endpoint, "pod"))
    return (pool, f"{pool}/{ref.tenant}") if ref is not None else (pool,)
