"""How long an event loop is held by one callback: in CPU time of its thread, so that a busy machine changes nothing. Garbage is not
collected meanwhile: a test's process has much more of it than a server.
"""

from __future__ import annotations

import asyncio
import gc
import time
from types import TracebackType


class LoopHolds:
    """A context in which a task wakes up at each turn of the loop, and measures it.

    async with LoopHolds() as holds:
        ...
    assert holds.longest_ms < 10
    """

    def __init__(self) -> None:
        self.longest_ms = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> LoopHolds:
        gc.collect()
        gc.disable()
        self._task = asyncio.create_task(self._measure())
        await asyncio.sleep(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What was held just now is measured in the next turn.
        await asyncio.sleep(0)
        gc.enable()
        if self._task is not None:
            self._task.cancel()

    async def begin_anew(self) -> None:
        """Forgets what was measured so far."""
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.longest_ms = 0.0

    async def _measure(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.longest_ms, last = max(self.longest_ms, 1e3 * (now - last)), now
