"""Gives out addresses: endpoints are created, and creating them is what takes an address.

Any number of allocators may work at once. Each proposes the lowest address that it believes free; the API
server refuses an endpoint whose name is there already, and the loser tries its next one. Nothing is kept
that objects do not say: after a crash, what was created is found by its owner's uid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from alcove.api import objects
from alcove.api.addresses import Address, Network
from alcove.api.errors import AlreadyExists
from alcove.api.ids import SYSTEM
from alcove.api.kinds.ranges import read_number
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import HOME
from alcove.client.resources import VPC_ENDPOINTS
from alcove.vpc import claims, ranges
from alcove.vpc.addressing import AddressPool, EndpointPurpose, build, out_of_range
from alcove.vpc.errors import AddressTaken, AddressUnavailable, OutOfRange, RangeFull
from alcove.vpc.ipam import AddressIndex
from alcove.vpc.vpc_cache import VpcCache

ATTEMPTS_MAX = 256
"""So many addresses may turn out to be taken before it is tried again later, knowing more."""


class AddressRequest(Struct, frozen=True):
    """An address of any of the places, the first with room first; or the chosen one, of the only place."""

    pools: tuple[AddressPool, ...]
    chosen: Address | None = None


class AddressAllocator:
    def __init__(self, cache: VpcCache, now: Callable[[], float]) -> None:
        """`now` only measures how long ago something was."""
        self._cache = cache
        self._now = now
        self._pools: dict[int, dict[Network, AddressIndex]] = {}
        cache.endpoints.subscribe(self._changed)
        cache.dividers.subscribe(self._forget)

    async def claim(
        self, place: AddressPool, purpose: EndpointPurpose, chosen: Address | None = None
    ) -> Object:
        """Creates an endpoint with the chosen address, or else the lowest free one.

        Raises OutOfRange, Taken, Full, and what the client raises.
        """
        pool = self.pool(place)
        if chosen is not None:
            return await self._claim_chosen(pool, place, purpose, chosen)
        for _ in range(ATTEMPTS_MAX):
            address = pool.lowest(self._now())
            if address is None:
                raise RangeFull(_full(place, pool))
            if made := await self._try(pool, place, purpose, address):
                return made
        raise AddressUnavailable(f"others take the addresses of {place.network} faster than this allocator")

    def check(self, wishes: Sequence[AddressRequest]) -> None:
        """Raises what would keep some of the wishes from being fulfilled together, as far as is known here:
        so that nobody takes one address only to give it back for want of another."""
        left: dict[Network, int] = {}
        for wish in wishes:
            rooms = [(pool, self.pool(pool)) for pool in wish.pools]
            if wish.chosen is not None and rooms[0][1].is_taken(wish.chosen):
                raise AddressTaken(f"address {wish.chosen} is taken")
            found = next(
                (place for place, pool in rooms if left.setdefault(place.network, pool.free) > 0), None
            )
            if found is None:
                raise RangeFull("; ".join(_full(place, pool) for place, pool in rooms))
            left[found.network] -= 1

    async def _claim_chosen(
        self, pool: AddressIndex, place: AddressPool, purpose: EndpointPurpose, chosen: Address
    ) -> Object:
        if not ranges.is_usable(place.network, chosen):
            raise OutOfRange(out_of_range(chosen, place))
        if pool.reserve(chosen, self._now()) and (made := await self._try(pool, place, purpose, chosen)):
            return made
        raise AddressTaken(f"address {chosen} is taken")

    async def _try(
        self, pool: AddressIndex, place: AddressPool, purpose: EndpointPurpose, address: Address
    ) -> Object | None:
        try:
            return await self._cache.client.create(
                SYSTEM, VPC_ENDPOINTS, build(self._cache, place, purpose, address)
            )
        except AlreadyExists:
            # Somebody's endpoint that was not seen yet. It will be seen, or the rumour grows old.
            return None
        except BaseException:
            # Whether it was created or not, nobody knows: if so, it will be seen.
            pool.cancel_reservation(address)
            raise

    def pool(self, place: AddressPool) -> AddressIndex:
        pools = self._pools.setdefault(place.scope, {})
        pool = pools.get(place.network)
        if pool is None:
            pool = pools[place.network] = AddressIndex(place.network)
            for key in self._cache.endpoints.find_keys("scope", HOME, SYSTEM, str(place.scope)):
                if claim := claims.claimed(key.name):
                    pool.held(claim[1])
        return pool

    def _forget(self, change: ObjectChange) -> None:
        """A number that nobody has any more has no addresses either."""
        vni = read_number(objects.get(change.obj, "spec", "vni"))
        if change.kind is ChangeType.DELETED and vni and change.key.name == claims.divider_name(vni, 0):
            self._pools.pop(vni, None)

    def _changed(self, change: ObjectChange) -> None:
        claim = None if change.kind is ChangeType.UPDATED else claims.claimed(change.key.name)
        if claim is None:
            return
        scope, address = claim
        for pool in self._pools.get(scope, {}).values():
            if change.kind is ChangeType.ADDED:
                pool.held(address)
            else:
                pool.released(address)


def _full(place: AddressPool, pool: AddressIndex) -> str:
    where = f'subnet "{place.net}" ({place.network})' if place.net else f"range {place.network}"
    return f"no address left in {where}: all {pool.used} are in use"
