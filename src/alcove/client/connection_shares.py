"""Who may use one of a few connections: nobody's slow requests take them all.

A tenant gets another one only while more are free than it has. So one tenant alone has at most half of them, a second
one half of the rest, and so on: whoever comes next finds one free, however long the others' requests take (a tenant's
webhooks decide that). What waits is served tenant by tenant in turn. Ring0's own requests only need a free one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

RING0 = ""
_TENANTS = "/tenants/"


def sharer(path: str) -> str:
    """Whose request it is, by its path in the full form (`paths.py`)."""
    start = path.find(_TENANTS)
    if start < 0:
        return RING0
    start += len(_TENANTS)
    end = path.find("/", start)
    tenant = path[start:end] if end >= 0 else path[start:].partition("?")[0]
    return RING0 if tenant in ("system", "all") else tenant


class ConnectionShares:
    """Belongs to one event loop."""

    def __init__(self, total: int) -> None:
        self.free = total
        self._used: dict[str, int] = {}
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """Those who wait, in the order of their turns."""

    async def take(self, who: str) -> None:
        """Waits until it may have one; it is to `give_back` it."""
        if who not in self._waiting and self._may(who):
            self._grant(who)
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self.give_back(who)  # It had got one just before.
            raise

    def give_back(self, who: str) -> None:
        self.free += 1
        self._used[who] -= 1
        if not self._used[who]:
            del self._used[who]
        while self.free and (turn := next(filter(self._may, self._waiting), None)) is not None:
            waiter = self._waiting[turn].popleft()
            if not waiter.cancelled():
                self._grant(turn)
                waiter.set_result(None)
                self._waiting.move_to_end(turn)
            if not self._waiting[turn]:
                del self._waiting[turn]

    def _may(self, who: str) -> bool:
        return self.free > (0 if who == RING0 else self._used.get(who, 0))

    def _grant(self, who: str) -> None:
        self.free -= 1
        self._used[who] = self._used.get(who, 0) + 1
