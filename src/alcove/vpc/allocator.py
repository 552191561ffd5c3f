"""Allocates addresses: creating an endpoint object is what allocates its address.

Any number of allocators may run concurrently. Each proposes the lowest address that it believes free; the API
server rejects an endpoint whose name already exists, and the loser tries its next candidate. There is no
state besides the objects: after a crash, existing endpoints are found by their owner's uid.

The response to a creation may be lost, so an owner that claims again is given the same address first, and takes an
endpoint that turns out to be its own: otherwise it would have two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from alcove.api import objects
from alcove.api.addresses import Address, Network
from alcove.api.errors import AlreadyExists, NotFound
from alcove.api.ids import SYSTEM
from alcove.api.kinds.mizar import OWNER_LABEL
from alcove.api.kinds.ranges import read_number
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import HOME
from alcove.client.resources import VPC_ENDPOINTS
from alcove.vpc import claims, ranges
from alcove.vpc.addressing import AddressPool, EndpointPurpose, build, out_of_range
from alcove.vpc.errors import AddressTaken, AddressUnavailable, OutOfRange, RangeFull
from alcove.vpc.ipam import AddressIndex
from alcove.vpc.states import is_going
from alcove.vpc.vpc_cache import VpcCache, spec_of

ATTEMPTS_MAX = 256
"""Number of candidates that may turn out to be allocated before the claim fails and is retried later."""
UNCERTAIN_MAX = 4_096
"""Claims with an unknown outcome that are remembered until their owners claim again; the oldest are forgotten first."""


class AddressRequest(Struct, frozen=True):
    """A request for an address of the first pool with a free one, or for the chosen address of the only
    pool."""

    pools: tuple[AddressPool, ...]
    chosen: Address | None = None


class AddressAllocator:
    def __init__(self, cache: VpcCache, now: Callable[[], float]) -> None:
        """`now` is a monotonic clock that measures the age of reservations."""
        self._cache = cache
        self._now = now
        self._pools: dict[int, dict[Network, AddressIndex]] = {}
        self._uncertain: dict[tuple[str, str], Address] = {}
        """Owner's uid and interface → the address of a claim of which it is not known whether it was granted."""
        cache.endpoints.subscribe(self._changed)
        cache.dividers.subscribe(self._forget_vni)
        cache.subnets.subscribe(self._forget_subnet)

    async def claim(
        self, pool: AddressPool, purpose: EndpointPurpose, chosen: Address | None = None
    ) -> Object:
        """Create an endpoint with the chosen address, or with the lowest free one.

        Raises OutOfRange, AddressTaken, RangeFull, ApiError and ClientError.
        """
        index = self.pool(pool)
        if chosen is not None:
            return await self._claim_chosen(index, pool, purpose, chosen)
        uncertain = self._uncertain.pop((purpose.owner_uid, purpose.interface), None)
        if uncertain is not None and uncertain in pool.network:
            index.reserve(uncertain, self._now())
            if created := await self._try_create(index, pool, purpose, uncertain):
                return created
        for _ in range(ATTEMPTS_MAX):
            address = index.lowest(self._now())
            if address is None:
                raise RangeFull(_full(pool, index))
            if created := await self._try_create(index, pool, purpose, address):
                return created
        raise AddressUnavailable(f"too many concurrent allocations in {pool.network}")

    def check(self, requests: Sequence[AddressRequest]) -> None:
        """Raise AddressTaken or RangeFull if the cached state shows that not all requests can be granted
        together.

        Checking first avoids allocating one address only to release it because another is not available.
        """
        remaining: dict[Network, int] = {}
        for request in requests:
            indexes = [(pool, self.pool(pool)) for pool in request.pools]
            if request.chosen is not None and indexes[0][1].is_taken(request.chosen):
                raise AddressTaken(f"address {request.chosen} is taken")
            chosen = next(
                (pool for pool, index in indexes if remaining.setdefault(pool.network, index.free) > 0), None
            )
            if chosen is None:
                raise RangeFull("; ".join(_full(pool, index) for pool, index in indexes))
            remaining[chosen.network] -= 1

    async def _claim_chosen(
        self, index: AddressIndex, pool: AddressPool, purpose: EndpointPurpose, chosen: Address
    ) -> Object:
        if not ranges.is_usable(pool.network, chosen):
            raise OutOfRange(out_of_range(chosen, pool))
        if index.reserve(chosen, self._now()):
            endpoint = await self._try_create(index, pool, purpose, chosen)
        else:
            endpoint = await self._own(build(self._cache, pool, purpose, chosen))
        if endpoint is not None:
            return endpoint
        raise AddressTaken(f"address {chosen} is taken")

    async def _try_create(
        self, index: AddressIndex, pool: AddressPool, purpose: EndpointPurpose, address: Address
    ) -> Object | None:
        """Create the endpoint; None if the address is already allocated to another owner."""
        endpoint = build(self._cache, pool, purpose, address)
        try:
            return await self._cache.client.create(SYSTEM, VPC_ENDPOINTS, endpoint)
        except AlreadyExists:
            # The mirror has not received the endpoint yet. The reservation stays until it does, or expires.
            return await self._own(endpoint)
        except BaseException:
            # The outcome is unknown; if the endpoint was created, the mirror will receive it.
            index.cancel_reservation(address)
            self._uncertain[purpose.owner_uid, purpose.interface] = address
            if len(self._uncertain) > UNCERTAIN_MAX:
                del self._uncertain[next(iter(self._uncertain))]
            raise

    async def _own(self, endpoint: Object) -> Object | None:
        """The existing endpoint of this name, if an earlier attempt has created it for the same purpose."""
        try:
            existing = await self._cache.client.get(SYSTEM, VPC_ENDPOINTS, objects.name(endpoint))
        except NotFound:
            return None
        is_own = objects.labels(existing).get(OWNER_LABEL) == objects.labels(endpoint)[OWNER_LABEL] and all(
            spec_of(existing, field) == spec_of(endpoint, field) for field in ("type", "itf", "net")
        )
        return existing if is_own and not is_going(existing) else None

    def pool(self, pool: AddressPool) -> AddressIndex:
        """The index of the pool's addresses; built from the existing endpoints at the first call."""
        indexes = self._pools.setdefault(pool.scope, {})
        index = indexes.get(pool.network)
        if index is None:
            index = indexes[pool.network] = AddressIndex(pool.network)
            for key in self._cache.endpoints.find_keys("scope", HOME, SYSTEM, str(pool.scope)):
                if claim := claims.claimed(key.name):
                    index.held(claim[1])
        return index

    def _forget_subnet(self, change: ObjectChange) -> None:
        """Drop the index of a deleted subnet. It is built again if another subnet has the same range."""
        vni, network = read_number(objects.get(change.obj, "spec", "vni")), ranges.range_of(change.obj)
        if change.kind is ChangeType.DELETED and vni in self._pools and network is not None:
            self._pools[vni].pop(network, None)
            if not self._pools[vni]:
                del self._pools[vni]

    def _forget_vni(self, change: ObjectChange) -> None:
        """Drop the indexes of a VNI that is released: without a first divider it has no addresses."""
        vni = read_number(objects.get(change.obj, "spec", "vni"))
        if change.kind is ChangeType.DELETED and vni and change.key.name == claims.divider_name(vni, 0):
            self._pools.pop(vni, None)

    def _changed(self, change: ObjectChange) -> None:
        claim = None if change.kind is ChangeType.UPDATED else claims.claimed(change.key.name)
        if claim is None:
            return
        scope, address = claim
        for index in self._pools.get(scope, {}).values():
            if change.kind is ChangeType.ADDED:
                index.held(address)
            else:
                index.released(address)


def _full(pool: AddressPool, index: AddressIndex) -> str:
    where = f'subnet "{pool.net}" ({pool.network})' if pool.net else f"range {pool.network}"
    return f"no address left in {where}: all {index.used} are in use"
