"""How much history a store keeps: some minutes, or so many revisions, whichever is less.

A watch or a paged list may resume from anything kept; what is older is compacted.
"""

import logging
from asyncio import sleep
from collections import deque
from collections.abc import Awaitable, Callable
from time import monotonic

from msgspec import Struct

from alcove.api.ids import Revision
from alcove.store.base import Store, StoreError

logger = logging.getLogger(__name__)


class RetentionPolicy(Struct, frozen=True, kw_only=True):
    seconds: float = 300.0
    revisions_max: int = 200_000
    """Bounds the file where many writes come in those seconds."""
    every_seconds: float = 30.0
    """Between two compactions."""


class Compactor:
    """Compacts `store` again and again; `run` it as a task beside the server."""

    def __init__(
        self,
        store: Store,
        keep: RetentionPolicy | None = None,
        *,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] = sleep,
    ) -> None:
        self._store = store
        self._keep = keep or RetentionPolicy()
        self._clock = clock
        self._sleep = sleep
        self._seen: deque[tuple[float, Revision]] = deque()

    async def run(self) -> None:
        while True:
            await self._sleep(self._keep.every_seconds)
            try:
                await self.step()
            except StoreError as error:
                # History stays a little longer; the next round tries again.
                logger.warning("compaction failed", extra={"error": str(error)})

    async def step(self) -> None:
        """Compacts what is no longer to be kept now."""
        upto = self.due(self._clock(), await self._store.revision())
        if upto > await self._store.compacted():
            await self._store.compact(upto)

    def due(self, now: float, revision: Revision) -> Revision:
        """Up to where to compact, given that `revision` is the newest now."""
        self._seen.append((now, revision))
        old = Revision(0)
        while self._seen and self._seen[0][0] <= now - self._keep.seconds:
            old = self._seen.popleft()[1]
        return max(old, Revision(revision - self._keep.revisions_max))
