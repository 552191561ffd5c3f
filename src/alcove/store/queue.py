"""The bounded queue between a commit and the consumer of a feed. Filled and emptied on one loop."""

from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Sequence

from alcove.api.ids import Revision
from alcove.store.base import ABSENT, FeedLagged, StoreError, StoreEvent

QUEUED_EVENTS_MAX = 16_384
"""Number of events queued for a consumer. The consumer is a cache in this process: if it is further behind,
it is cheaper to read the log again."""


class EventQueue:
    """Batches of events for one consumer."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._batches: deque[tuple[Sequence[StoreEvent], Revision]] = deque()
        self._waiter: Future[None] | None = None
        self._error: StoreError | None = None
        self.events = 0
        """The number of unread events."""
        self.position = ABSENT
        """The revision up to which the last taken batch reached."""

    def push(self, events: Sequence[StoreEvent], upto: Revision) -> None:
        """Add the batch of all events up to a revision. If too many events are unread, the queue is cleared
        and ends with FeedLagged."""
        if self._error is not None:
            return
        self._batches.append((events, upto))
        self.events += len(events)
        if self.events > QUEUED_EVENTS_MAX and len(self._batches) > 1:
            unread = self.events
            self.clear()
            self.end(FeedLagged(f"{unread} events were left unread"))
        else:
            self._wake()

    def end(self, error: StoreError) -> None:
        """End the queue: after the queued batches, `take` raises `error`."""
        self._error = self._error or error
        self._wake()

    def clear(self) -> None:
        self._batches.clear()
        self.events = 0

    async def take(self) -> Sequence[StoreEvent]:
        while not self._batches:
            if self._error is not None:
                raise self._error
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        batch, self.position = self._batches.popleft()
        self.events -= len(batch)
        return batch

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
