"""An index of a range's allocated addresses that finds the lowest free one.

The index is not authoritative: an address is allocated when an endpoint object for it exists, and creating
that object decides between concurrent allocators (`vpc/claims.py`). The index is notified of endpoints that
are created and deleted, and keeps tentative *reservations* until the mirror has received the object.

    free ──reserve──▶ reserved ──held──▶ held ──released──▶ free
                         └──expired or cancelled──▶ free

Reserving an address is O(log n) in the number of allocated addresses, however large and full the range is.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from alcove.api.addresses import Address, Network
from alcove.vpc import ranges

RESERVATION_SECONDS_MAX = 60.0
"""After this time the mirror has received the endpoint, or the endpoint was not created or is deleted
again."""


class AddressIndex:
    def __init__(self, network: Network, reserved: Iterable[Address] = ()) -> None:
        self.network = network
        self._last = ranges.last_usable(network)
        self._reserved = frozenset(int(address) for address in reserved if ranges.is_usable(network, address))
        self._held: set[int] = set()
        self._pending: dict[int, float] = {}
        """Address → time of the reservation; the oldest first."""
        self._next_unused = ranges.first_usable(network)
        """Addresses from here on are free unless held, pending or reserved."""
        self._returned: list[int] = []
        """A heap with every free address below `_next_unused`, and some that were allocated since."""
        self._queued: set[int] = set()
        self._size = self._last - self._next_unused + 1 - len(self._reserved)

    @property
    def used(self) -> int:
        return len(self._held) + len(self._pending)

    @property
    def free(self) -> int:
        return self._size - self.used

    def is_taken(self, address: Address) -> bool:
        """Whether the address is allocated or reserved."""
        return self._is_taken(int(address))

    def _is_taken(self, number: int) -> bool:
        return number in self._held or number in self._pending or number in self._reserved

    def lowest(self, now: float) -> Address | None:
        """Reserve and return the lowest free address; None if all are allocated."""
        self._expire(now)
        number = self._next()
        if number is None:
            return None
        self._pending[number] = now
        return self.network.network_address + (number - int(self.network.network_address))

    def _next(self) -> int | None:
        returned = self._returned
        while returned:
            number = heapq.heappop(returned)
            self._queued.discard(number)
            if not self._is_taken(number):
                return number
        while self._next_unused <= self._last:
            number, self._next_unused = self._next_unused, self._next_unused + 1
            if not self._is_taken(number):
                return number
        return None

    def reserve(self, address: Address, now: float) -> bool:
        """Reserve a chosen address; False if it is already taken."""
        self._expire(now)
        number = int(address)
        if self._is_taken(number):
            return False
        self._pending[number] = now
        return True

    def cancel_reservation(self, address: Address) -> None:
        """Cancel a tentative reservation."""
        number = int(address)
        if self._pending.pop(number, None) is not None:
            self._return(number)

    def held(self, address: Address) -> None:
        """Record that an endpoint holds the address. Addresses that are not usable are ignored."""
        number = int(address)
        if number in self._held or not ranges.is_usable(self.network, address) or number in self._reserved:
            return
        self._pending.pop(number, None)
        self._held.add(number)

    def released(self, address: Address) -> None:
        """Record that the address's endpoint was deleted."""
        number = int(address)
        if number in self._held:
            self._held.remove(number)
            self._return(number)

    def _return(self, number: int) -> None:
        if number < self._next_unused and number not in self._queued:
            self._queued.add(number)
            heapq.heappush(self._returned, number)

    def _expire(self, now: float) -> None:
        while self._pending:
            number, since = next(iter(self._pending.items()))
            if since + RESERVATION_SECONDS_MAX > now:
                return
            del self._pending[number]
            self._return(number)
