"""Limits the history of a store by age and by number of revisions, whichever is less.

A watch or a paged list may resume from any retained revision; older revisions are compacted.
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
    """Bounds the size of the store if there are many writes within `seconds`."""
    every_seconds: float = 30.0
    """The interval between two compactions."""


class Compactor:
    """Compacts `store` periodically; `run` it as a background task."""

    def __init__(
        self,
        store: Store,
        keep: RetentionPolicy | None = None,
        *,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] = sleep,
    ) -> None:
        self._store = store
        self._policy = keep or RetentionPolicy()
        self._clock = clock
        self._sleep = sleep
        self._observed: deque[tuple[float, Revision]] = deque()

    async def run(self) -> None:
        while True:
            await self._sleep(self._policy.every_seconds)
            try:
                await self.step()
            except StoreError as error:
                # The history is retained until the next round.
                logger.warning("compaction failed; retrying", extra={"error": str(error)})

    async def step(self) -> None:
        """Compact the revisions that need not be retained any more."""
        upto = self.due(self._clock(), await self._store.revision())
        if upto > await self._store.compacted():
            await self._store.compact(upto)

    def due(self, now: float, revision: Revision) -> Revision:
        """The revision up to which to compact, if `revision` is the newest now."""
        self._observed.append((now, revision))
        old = Revision(0)
        while self._observed and self._observed[0][0] <= now - self._policy.seconds:
            old = self._observed.popleft()[1]
        return max(old, Revision(revision - self._policy.revisions_max))
