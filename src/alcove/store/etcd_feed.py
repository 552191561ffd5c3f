"""A feed from etcd: one watch, which a background task reads into the consumer's queue.

A watch that breaks is opened again after the last event that it delivered. While a feed is reading history,
the watch is read no faster than the consumer; after that, a consumer that leaves too many events unread gets
FeedLagged.
"""

import asyncio
from asyncio import Future, Task
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import msgspec

from alcove.api.ids import Revision
from alcove.store import etcd_wire as wire
from alcove.store.base import Compacted, StoreChangeType, StoreError, StoreEvent, StoreUnavailable
from alcove.store.etcd_client import EtcdClient
from alcove.store.etcd_keys import EtcdKeys
from alcove.store.grpc_channel import GrpcError
from alcove.store.queue import EventQueue

HISTORY_QUEUED_MAX = 4_096
BACKOFF_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)

_last_body = msgspec.msgpack.Decoder(tuple[bytes, bytes])


class EtcdFeed(AsyncIterator[Sequence[StoreEvent]]):
    def __init__(
        self,
        client: EtcdClient,
        keys: EtcdKeys,
        after: Revision,
        check: Callable[[Revision], Any],
        open_feeds: set["EtcdFeed"],
    ) -> None:
        self._client = client
        self._keys = keys
        self._check = check
        self._open_feeds = open_feeds
        self._loop = asyncio.get_running_loop()
        self._queue = EventQueue(self._loop)
        self._after = after
        self._received = after
        """All events up to this revision were put into the queue."""
        self._present = after
        """The newest revision when the watch was created: events up to it are history."""
        self._created: Future[None] = self._loop.create_future()
        self._room = asyncio.Event()
        self._paused = False
        self._waiting: list[tuple[Revision, Future[None]]] = []
        self._reader: Task[None] | None = None

    async def __aenter__(self) -> "EtcdFeed":
        await self._check(self._received)
        self._open_feeds.add(self)
        self._reader = asyncio.create_task(self._read())
        try:
            await self._created
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open_feeds.discard(self)
        self._release_writers()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    @property
    def position(self) -> Revision:
        return max(self._after, self._queue.position)

    async def __anext__(self) -> Sequence[StoreEvent]:
        batch = await self._queue.take()
        if self._queue.events < HISTORY_QUEUED_MAX:
            self._room.set()
        return batch

    def end(self, error: StoreError) -> None:
        """End the feed: the consumer gets the queued events, then `error` is raised."""
        self._open_feeds.discard(self)
        self._queue.end(error)
        self._release_writers()
        if not self._created.done():
            self._created.set_exception(error)

    async def reached(self, revision: Revision) -> None:
        """Return when the events of `revision` are in the queue, or when only the consumer delays them."""
        if self._received < revision and not self._paused and self in self._open_feeds:
            future: Future[None] = self._loop.create_future()
            self._waiting.append((revision, future))
            await future
        elif self._queue.events:
            # The consumer was woken, but etcd's response to the writer may be handled in the same loop
            # iteration.
            await asyncio.sleep(0)

    async def _read(self) -> None:
        failures = 0
        while True:
            before, endpoint = self._received, self._client.endpoint
            try:
                await self._follow()
            except Compacted as error:
                self.end(error)
                return
            except GrpcError:
                self._client.failed(endpoint)
            except Exception as error:
                failure = StoreUnavailable(f"cannot follow etcd: {error}")
                failure.__cause__ = error
                self.end(failure)
                return
            failures = failures + 1 if self._received == before else 0
            await asyncio.sleep(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)])

    async def _follow(self) -> None:
        """Read one watch, from the last received revision until the watch breaks."""
        stream = await self._client.watch(self._request())
        try:
            while (message := await stream.read()) is not None:
                response = wire.WatchResponse.FromString(message)
                if response.canceled:
                    if response.compact_revision:
                        raise Compacted(Revision(response.compact_revision))
                    return
                await self._handle(response)
        finally:
            stream.cancel()

    def _request(self) -> wire.Message:
        start, end = self._keys.everything
        create = wire.WatchCreateRequest(
            key=start, range_end=end, start_revision=self._received + 1, progress_notify=True, prev_kv=True
        )
        return wire.WatchRequest(create_request=create)

    async def _handle(self, response: wire.Message) -> None:
        revision = Revision(response.header.revision)
        if response.created:
            self._present = max(self._present, revision)
            if not self._created.done():
                self._created.set_result(None)
            return
        if self._received < self._present and self._queue.events > HISTORY_QUEUED_MAX:
            await self._wait_for_room()
        events = list(_events(response, self._keys))
        # A response without events means that there are none up to its header's revision. One with events
        # may be older than its header.
        reached = Revision(response.events[-1].kv.mod_revision) if response.events else revision
        self._received = max(self._received, reached)
        # Also without events: a transaction that only removed last bodies has a revision that readers wait
        # for.
        self._queue.push(events, self._received)
        self._release_writers(self._received)

    async def _wait_for_room(self) -> None:
        self._paused = True
        self._release_writers()
        self._room.clear()
        await self._room.wait()
        self._paused = False

    def _release_writers(self, upto: Revision | None = None) -> None:
        waiting, self._waiting = self._waiting, []
        for revision, future in waiting:
            if upto is not None and revision > upto:
                self._waiting.append((revision, future))
            elif not future.done():
                future.set_result(None)


def _events(response: wire.Message, keys: EtcdKeys) -> Iterator[StoreEvent]:
    """The response's events; events of one revision are adjacent."""
    lasts: dict[tuple[int, bytes], bytes] = {}
    for event in response.events:
        if keys.is_last(event.kv.key) and event.type == wire.PUT:
            path, body = _last_body.decode(event.kv.value)
            lasts[event.kv.mod_revision, path] = body
    for event in response.events:
        pair = event.kv
        if keys.is_last(pair.key):
            continue
        revision = Revision(pair.mod_revision)
        if event.type == wire.DELETE:
            body = lasts.get((revision, pair.key), event.prev_kv.value)
            yield StoreEvent(StoreChangeType.DELETED, keys.key(pair.key), revision, body)
        else:
            created = pair.create_revision == pair.mod_revision
            change = StoreChangeType.CREATED if created else StoreChangeType.UPDATED
            yield StoreEvent(change, keys.key(pair.key), revision, pair.value)
