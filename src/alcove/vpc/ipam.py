"""Which addresses of a range are taken, and the lowest that is not.

An index, never the truth: an address is taken when an endpoint object of it exists, and creating that
object decides between rivals (`vpc/claims.py`). The pool is told of objects as they come and go, and
remembers *rumours*: addresses that somebody is believed to have taken, before the object is seen.

    free ──rumour──▶ rumoured ──held──▶ held ──released──▶ free
                        └──too old, or withdrawn──▶ free

Taking an address costs O(log n) of those taken, however large the range is and however full.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from alcove.api.addresses import Address, Network
from alcove.vpc import ranges

RESERVATION_SECONDS_MAX = 60.0
"""An object made longer ago than this has been seen, or is gone again."""


class AddressIndex:
    def __init__(self, network: Network, reserved: Iterable[Address] = ()) -> None:
        self.network = network
        self._last = ranges.last_usable(network)
        self._reserved = frozenset(int(address) for address in reserved if ranges.is_usable(network, address))
        self._held: set[int] = set()
        self._rumoured: dict[int, float] = {}
        """Address → when it was heard of; the oldest first."""
        self._mark = ranges.first_usable(network)
        """From here on everything is free that is not held, rumoured or reserved."""
        self._returned: list[int] = []
        """A heap with every free address below the mark, and some that were taken since."""
        self._queued: set[int] = set()
        self._size = self._last - self._mark + 1 - len(self._reserved)

    @property
    def used(self) -> int:
        return len(self._held) + len(self._rumoured)

    @property
    def free(self) -> int:
        return self._size - self.used

    def is_taken(self, address: Address) -> bool:
        """Or reserved: not to be had."""
        return self._is_taken(int(address))

    def _is_taken(self, number: int) -> bool:
        return number in self._held or number in self._rumoured or number in self._reserved

    def lowest(self, now: float) -> Address | None:
        """The lowest free address, which is rumoured from now on; None: all are taken."""
        self._forget(now)
        number = self._next()
        if number is None:
            return None
        self._rumoured[number] = now
        return self.network.network_address + (number - int(self.network.network_address))

    def _next(self) -> int | None:
        returned = self._returned
        while returned:
            number = heapq.heappop(returned)
            self._queued.discard(number)
            if not self._is_taken(number):
                return number
        while self._mark <= self._last:
            number, self._mark = self._mark, self._mark + 1
            if not self._is_taken(number):
                return number
        return None

    def reserve(self, address: Address, now: float) -> bool:
        """Takes a chosen address; False where it is taken already."""
        self._forget(now)
        number = int(address)
        if self._is_taken(number):
            return False
        self._rumoured[number] = now
        return True

    def cancel_reservation(self, address: Address) -> None:
        """The rumour was wrong."""
        number = int(address)
        if self._rumoured.pop(number, None) is not None:
            self._return(number)

    def held(self, address: Address) -> None:
        """An endpoint of it exists. Addresses that no endpoint should have are not counted."""
        number = int(address)
        if number in self._held or not ranges.is_usable(self.network, address) or number in self._reserved:
            return
        self._rumoured.pop(number, None)
        self._held.add(number)

    def released(self, address: Address) -> None:
        """Its endpoint is gone."""
        number = int(address)
        if number in self._held:
            self._held.remove(number)
            self._return(number)

    def _return(self, number: int) -> None:
        if number < self._mark and number not in self._queued:
            self._queued.add(number)
            heapq.heappush(self._returned, number)

    def _forget(self, now: float) -> None:
        while self._rumoured:
            number, since = next(iter(self._rumoured.items()))
            if since + RESERVATION_SECONDS_MAX > now:
                return
            del self._rumoured[number]
            self._return(number)
