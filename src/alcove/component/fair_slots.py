"""A bounded number of slots that owners share fairly: connections, starts of containers, threads. An owner is a
tenant.

An owner gets another slot only while more are free than it has. So one owner alone gets at most half of them, a
second one half of the rest, and so on: the next owner finds a free one, however long the others keep theirs.
Who waits is served round-robin by owner.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

_Owner = TypeVar("_Owner", bound=Hashable)


class TooManyWaiting(Exception):
    """This one would have waited for a slot, and its owner has most of those who wait."""


class FairSlots(Generic[_Owner]):
    """Counts slots in use per owner. Belongs to one event loop."""

    def __init__(
        self,
        total: int,
        *,
        unlimited: _Owner | None = None,
        owner_max: int = 0,
        first_is_free: bool = False,
        waiting_max: int = 0,
    ) -> None:
        """`unlimited`: an owner that only needs a free slot. `owner_max`: the slots that an owner may have at most,
        if less than half of them. `first_is_free`: an owner without a slot gets one even if none is free; for
        owners whose number is bounded. `waiting_max`: how many may wait if that is not bounded elsewhere; one more is
        refused, the newest of the owner with most."""
        self.free = total
        self._unlimited = unlimited
        self._owner_max = owner_max or total
        self._first_is_free = first_is_free
        self._waiting_max = waiting_max
        self._used: dict[_Owner, int] = {}
        self._waiting: OrderedDict[_Owner, deque[asyncio.Future[None]]] = OrderedDict()
        """Who waits, by owner, in round-robin order."""

    @asynccontextmanager
    async def slot(self, owner: _Owner) -> AsyncIterator[None]:
        """Waits for a slot, and keeps it until the end of the block. Raises TooManyWaiting."""
        await self.take(owner)
        try:
            yield
        finally:
            self.release(owner)

    async def take(self, owner: _Owner) -> None:
        """Wait until the owner may have another slot. The caller must call `release` afterwards. Raises
        TooManyWaiting."""
        if owner not in self._waiting and self._may(owner):
            self._grant(owner)
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(waiter)
        if self._waiting_max and sum(map(len, self._waiting.values())) > self._waiting_max:
            self._refuse_one()
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and waiter.exception() is None:
                self.release(owner)  # It was granted just before the cancellation.
            raise

    def _refuse_one(self) -> None:
        # Of owners with equally many it is the last one, who has waited least.
        owner = max(reversed(self._waiting), key=lambda each: len(self._waiting[each]))
        waiter = self._waiting[owner].pop()
        if not self._waiting[owner]:
            del self._waiting[owner]
        if not waiter.done():
            waiter.set_exception(TooManyWaiting())

    def release(self, owner: _Owner) -> None:
        self.free += 1
        self._used[owner] -= 1
        if not self._used[owner]:
            del self._used[owner]
        while (next_owner := next(filter(self._may, self._waiting), None)) is not None:
            waiter = self._waiting[next_owner].popleft()
            if not waiter.cancelled():
                self._grant(next_owner)
                waiter.set_result(None)
                self._waiting.move_to_end(next_owner)
            if not self._waiting[next_owner]:
                del self._waiting[next_owner]

    def _may(self, owner: _Owner) -> bool:
        used = self._used.get(owner, 0)
        if not used and self._first_is_free:
            return True
        if owner == self._unlimited:
            return self.free > 0
        return self.free > used and used < self._owner_max

    def _grant(self, owner: _Owner) -> None:
        self.free -= 1
        self._used[owner] = self._used.get(owner, 0) + 1
