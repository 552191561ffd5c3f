"""Feeds: how committed events reach their consumers, without polling.

A store calls `Feeds.publish` once per commit, on its loop. A feed that starts in the past reads
history until it is close to the present, then joins: the queue takes everything after the revision
of joining, history gives everything up to it, so nothing is missed and nothing comes twice.
"""

from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import TracebackType

from alcove.api.ids import Revision
from alcove.store.base import Ahead, Compacted, Event, Lagged, StoreError, Unavailable

QUEUED_EVENTS_MAX = 16_384
"""What a feed holds for its consumer. The consumer is a cache in this process: further behind than
this, it does better to read the log again."""

JOIN_WITHIN_REVISIONS = 1_024
"""A feed this close to the present queues new events while it reads the rest of its history."""

History = Callable[[Revision, Revision], Awaitable[Sequence[Event]]]
"""(after, upto) → the oldest events in between, as whole transactions; none only if there are none."""


class Feeds:
    """Every open feed of one store, and how far they have been given events."""

    def __init__(
        self, loop: AbstractEventLoop, history: History, revision: Revision, compacted: Revision
    ) -> None:
        self.revision = revision
        self.compacted = compacted
        self._loop = loop
        self._history = history
        self._open: set[Feed] = set()
        self._closed: str | None = None

    def publish(self, events: Sequence[Event], revision: Revision) -> None:
        self.revision = revision
        for feed in self._open:
            feed._push(events)

    def close(self, why: str) -> None:
        """Every feed gives what it has queued, then raises Unavailable."""
        self._closed = why
        for feed in self._open:
            feed._fail(Unavailable(why))

    def after(self, after: Revision) -> "Feed":
        return Feed(self, self._loop, self._history, after)


class Feed(AsyncIterator[Sequence[Event]]):
    """One consumer's way through the log; an async context manager, for one task at a time."""

    def __init__(self, feeds: Feeds, loop: AbstractEventLoop, history: History, after: Revision) -> None:
        self._feeds = feeds
        self._loop = loop
        self._history = history
        self._position = after
        self._joined: Revision | None = None
        """History is read up to here; the queue has what came after."""
        self._queue: deque[Sequence[Event]] = deque()
        self._queued = 0
        self._waiter: Future[None] | None = None
        self._error: StoreError | None = None

    async def __aenter__(self) -> "Feed":
        if self._feeds._closed is not None:
            raise Unavailable(self._feeds._closed)
        if self._position < self._feeds.compacted:
            raise Compacted(self._feeds.compacted)
        if self._position > self._feeds.revision:
            raise Ahead(self._feeds.revision)
        self._join_if_close()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._feeds._open.discard(self)
        self._queue.clear()

    async def __anext__(self) -> Sequence[Event]:
        while self._position < (upto := self._history_end()):
            events = await self._history(self._position, upto)
            self._position = events[-1].revision if events else upto
            if events:
                return events
        while not self._queue:
            if self._error is not None:
                raise self._error
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        batch = self._queue.popleft()
        self._queued -= len(batch)
        return batch

    def _history_end(self) -> Revision:
        self._join_if_close()
        return self._feeds.revision if self._joined is None else self._joined

    def _join_if_close(self) -> None:
        if self._joined is None and self._feeds.revision - self._position <= JOIN_WITHIN_REVISIONS:
            self._joined = self._feeds.revision
            self._feeds._open.add(self)

    def _push(self, events: Sequence[Event]) -> None:
        if self._error is not None:
            return
        self._queue.append(events)
        self._queued += len(events)
        if self._queued > QUEUED_EVENTS_MAX and len(self._queue) > 1:
            self._queue.clear()
            self._fail(Lagged(f"{self._queued} events were left unread"))
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: StoreError) -> None:
        self._error = error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
