"""What one dedicated plane may have of a process: memory for its objects, and time for its events and their handling.

A plane's API server is the tenant's own or anybody's: it may send more objects, larger ones, or more changes than a
process can hold or handle. Objects beyond the plane's share are refused (`PlaneTooLarge`), and the process then knows
the plane as it was before. Work beyond its share is done later, and events are read later, so that the server has to
wait. A plane that needs little is never delayed by others.

A list replaces all objects: those that it has not confirmed yet (stale ones) do not count, so that a plane that
has become small enough can be listed again. At most as much is kept of stale objects as of others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Any, TypeVar

from alcove.client.errors import PlaneTooLarge

T = TypeVar("T")

POOL_BYTES_MAX = 1 << 30
"""Of the objects of all dedicated planes in one process. A plane may have at most as much as is left."""
PLANE_BYTES_MAX = 256 << 20
OBJECT_BYTES = 512
"""What is counted for an object beside its encoded body: its key, its entry in tables."""
BURST_SECONDS_MAX = 5.0
"""Time that a plane's events may take at once."""
TIME_SHARE = 0.25
"""Of the time after that."""
ALL_TIME_SHARE = 0.5
"""Of the time, for all planes that have used up theirs."""
SLICE_SECONDS_MAX = 0.01
"""Time that a plane's events may take before others have their turn."""


class SharePool:
    """The memory for the objects of all dedicated planes."""

    def __init__(self, total_bytes: int = POOL_BYTES_MAX) -> None:
        self.free_bytes = total_bytes
        self._in_debt: set[PlaneShare] = set()

    def time_share(self, share: PlaneShare, *, is_in_debt: bool) -> float:
        """Which part of the time the plane may use."""
        (self._in_debt.add if is_in_debt else self._in_debt.discard)(share)
        return min(TIME_SHARE, ALL_TIME_SHARE / max(1, len(self._in_debt)))

    def forget(self, share: PlaneShare) -> None:
        self._in_debt.discard(share)


class PlaneShare:
    def __init__(
        self,
        pool: SharePool,
        plane_bytes_max: int = PLANE_BYTES_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._bytes_max = plane_bytes_max
        self._clock = clock
        self._used_bytes = 0
        self._stale_bytes = 0
        self._credit_seconds = BURST_SECONDS_MAX
        self._credited_at = clock()

    def mirror(self) -> MirrorShare:
        return MirrorShare(self)

    def take(self, size: int) -> None:
        """Counts bytes; negative ones are given back. Raises PlaneTooLarge."""
        used, free = self._used_bytes + size, self._pool.free_bytes - size
        if size > 0 and (used > self._bytes_max or used > free):
            raise PlaneTooLarge(f"the plane has more than {min(self._bytes_max, free) >> 20} MiB of objects")
        self._used_bytes, self._pool.free_bytes = used, free

    def set_aside(self, size: int) -> bool:
        """Counts bytes of stale objects; negative ones if they are dropped. Returns whether there are too many."""
        self._stale_bytes += size
        return self._stale_bytes > self._bytes_max

    async def pause(self, spent_seconds: float = 0.0) -> None:
        """Waits until the plane may have more time, after its events have taken `spent_seconds`."""
        share = self._charge(spent_seconds)
        await asyncio.sleep(max(0.0, -self._credit_seconds / share))

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits the work, then waits until the plane may have as much time as it has taken."""
        result = await _metered(work, self._charge)
        await self.pause()
        return result

    def leave(self) -> None:
        self._pool.forget(self)

    def _charge(self, spent_seconds: float) -> float:
        """Returns the plane's share of the time."""
        now = self._clock()
        share = self._pool.time_share(self, is_in_debt=self._credit_seconds < 0)
        refilled = self._credit_seconds + (now - self._credited_at) * share
        self._credit_seconds = min(refilled, BURST_SECONDS_MAX) - spent_seconds
        self._credited_at = now
        return share


@coroutine
def _metered(work: Coroutine[Any, Any, T], charge: Callable[[float], object]) -> Generator[Any, Any, T]:
    """Awaits the work, and charges the time that each of its steps takes."""
    step: Callable[[], Any] = partial(work.send, None)
    while True:
        began = time.perf_counter()
        try:
            awaited = step()
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        finally:
            charge(time.perf_counter() - began)
        try:
            step = partial(work.send, (yield awaited))
        except BaseException as error:
            step = partial(work.throw, error)


class MirrorShare:
    """One mirror's part of it."""

    def __init__(self, share: PlaneShare) -> None:
        self._share = share
        self._used_bytes = 0
        self._stale_bytes = 0

    def begin_list(self) -> bool:
        """All objects become stale. Returns whether there are too many of them: then drop them."""
        self._stale_bytes += self._used_bytes
        self._share.take(-self._used_bytes)
        is_too_much = self._share.set_aside(self._used_bytes)
        self._used_bytes = 0
        return is_too_much

    def replace(self, new_size: int, old_size: int, *, is_old_stale: bool) -> None:
        """Sizes are of bodies; 0 for no object. Raises PlaneTooLarge."""
        new, old = (size + OBJECT_BYTES if size else 0 for size in (new_size, old_size))
        taken = new if is_old_stale else new - old
        self._share.take(taken)
        self._used_bytes += taken
        if is_old_stale:
            self._stale_bytes -= old
            self._share.set_aside(-old)
