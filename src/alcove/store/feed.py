"""Feeds deliver committed events to their consumers, without polling.

A store calls `Feeds.publish` once per commit, on its loop. A feed that starts in the past reads history until
it is close to the present, then joins: events after the revision of joining come from the queue, events up to
it from history, so no event is missed or delivered twice.
"""

from asyncio import AbstractEventLoop
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import TracebackType

from alcove.api.ids import Revision
from alcove.store.base import Compacted, RevisionInFuture, StoreEvent, StoreUnavailable
from alcove.store.queue import EventQueue

JOIN_WITHIN_REVISIONS = 1_024
"""A feed this close to the present queues new events while it reads the rest of its history."""

History = Callable[[Revision, Revision], Awaitable[Sequence[StoreEvent]]]
"""(after, upto) → the oldest events in between, as whole transactions; empty only if there are none."""

Published = Callable[[Sequence[StoreEvent], Revision], None]
"""Called with the events of a commit, and the newest revision after it."""


class Feeds:
    """All open feeds of one store, and the revision up to which events were published."""

    def __init__(
        self, loop: AbstractEventLoop, history: History, revision: Revision, compacted: Revision
    ) -> None:
        self.revision = revision
        self.compacted = compacted
        self._loop = loop
        self._history = history
        self._open: set[LogFeed] = set()
        self._closed: str | None = None
        self.listener: Published | None = None
        """Called before the events are in any feed's queue."""

    def publish(self, events: Sequence[StoreEvent], revision: Revision) -> None:
        self.revision = revision
        if self.listener is not None:
            self.listener(events, revision)
        for feed in self._open:
            feed.queue.push(events, revision)

    def close(self, message: str) -> None:
        """End all feeds: each delivers its queued events, then raises StoreUnavailable."""
        self._closed = message
        for feed in self._open:
            feed.queue.end(StoreUnavailable(message))

    def after(self, after: Revision) -> "LogFeed":
        return LogFeed(self, EventQueue(self._loop), self._history, after)

    def check(self, after: Revision) -> None:
        """Raise StoreUnavailable, Compacted or RevisionInFuture unless a feed can start there."""
        if self._closed is not None:
            raise StoreUnavailable(self._closed)
        if after < self.compacted:
            raise Compacted(self.compacted)
        if after > self.revision:
            raise RevisionInFuture(self.revision)

    def join(self, feed: "LogFeed") -> None:
        self._open.add(feed)

    def leave(self, feed: "LogFeed") -> None:
        self._open.discard(feed)


class LogFeed(AsyncIterator[Sequence[StoreEvent]]):
    """One consumer's feed of the log; an async context manager, for one task at a time."""

    def __init__(self, feeds: Feeds, queue: EventQueue, history: History, after: Revision) -> None:
        self.queue = queue
        self._feeds = feeds
        self._history = history
        self._position = after
        self._joined: Revision | None = None
        """History is read up to this revision; later events are in the queue."""

    async def __aenter__(self) -> "LogFeed":
        self._feeds.check(self._position)
        self._join_if_close()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._feeds.leave(self)
        self.queue.clear()

    @property
    def position(self) -> Revision:
        return max(self._position, self.queue.position)

    async def __anext__(self) -> Sequence[StoreEvent]:
        while self._position < (upto := self._history_end()):
            events = await self._history(self._position, upto)
            self._position = events[-1].revision if events else upto
            if events:
                return events
        return await self.queue.take()

    def _history_end(self) -> Revision:
        self._join_if_close()
        return self._feeds.revision if self._joined is None else self._joined

    def _join_if_close(self) -> None:
        if self._joined is None and self._feeds.revision - self._position <= JOIN_WITHIN_REVISIONS:
            self._joined = self._feeds.revision
            self._feeds.join(self)
