"""The embedded store as a worker of the API server sees it: another process owns the file (`store_server`).

Reads of the log are relayed; the events of every commit come by the channel, and feeds are this process' own.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import AsyncIterator, Sequence
from typing import Any, Self

from alcove.api.ids import GroupResource, Revision, TenantId
from alcove.store.base import (
    ABSENT,
    StoreChangeType,
    StoreEvent,
    StoreRecord,
    StoreSnapshot,
    StoreUnavailable,
    WriteOp,
    WriteOutcomeUnknown,
    check_transaction,
)
from alcove.store.feed import Feeds, LogFeed
from alcove.store.shared_revision import SharedRevision
from alcove.store.sqlite_reads import SqliteReads, key_of
from alcove.store.store_server import packed_op
from alcove.store.worker_channel import ChannelClosed, WorkerChannel

_CLOSED = "the store is closed"

_CHANGES = {change.value: change for change in StoreChangeType}


class RemoteStore:
    """`Store` on a channel. Created by `open`."""

    def __init__(self, channel: WorkerChannel, shared: SharedRevision) -> None:
        self._channel = channel
        self._shared = shared
        self._reads = SqliteReads(self._read)
        self._feeds = Feeds(asyncio.get_running_loop(), self._reads.history, ABSENT, ABSENT)
        self._waiting: list[tuple[Revision, Future[None]]] = []
        """Callers that wait for the events up to a revision."""
        self._trouble: str | None = None
        channel.handlers |= {
            "opened": self._opened,
            "events": self._receive,
            "compacted": self._compacted,
            "trouble": self._set_trouble,
        }
        channel.closed.add_done_callback(lambda _: self._end())

    @classmethod
    async def open(cls, channel: WorkerChannel, shared: SharedRevision) -> Self:
        """Raises StoreUnavailable."""
        store = cls(channel, shared)
        await channel.call("open")
        return store

    def trouble(self) -> str | None:
        """The error due to which writes fail until the store is opened again; None if there is none."""
        return self._trouble

    async def write(self, ops: Sequence[WriteOp]) -> Revision:
        check_transaction(ops)
        self._check_open()
        try:
            return Revision(await self._channel.call("write", [packed_op(op) for op in ops]))
        except ChannelClosed as error:
            raise WriteOutcomeUnknown(str(error)) from error

    async def revision(self) -> Revision:
        self._check_open()
        newest = self._shared.newest
        # Its events are on their way: what this store returns, its feeds know.
        if self._feeds.revision < newest:
            future: Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((newest, future))
            await future
        return newest

    def known_revision(self) -> Revision | None:
        return None if self._channel.closed.done() else self._shared.newest

    async def compacted(self) -> Revision:
        self._check_open()
        self._compacted(Revision(await self._channel.call("compacted")))
        return self._feeds.compacted

    async def snapshot(
        self,
        at: Revision | None = None,
        *,
        resource: GroupResource | None = None,
        tenant: TenantId | None = None,
        namespace: str | None = None,
    ) -> StoreSnapshot:
        return await self._reads.snapshot(at, self.revision, resource, tenant, namespace)

    def pages(self, at: Revision) -> AsyncIterator[Sequence[StoreRecord]]:
        return self._reads.pages(at, self.revision)

    def feed(self, after: Revision) -> LogFeed:
        return self._feeds.after(after)

    async def compact(self, upto: Revision) -> None:
        self._check_open()
        await self._channel.call("compact", upto)
        await self.compacted()

    async def close(self) -> None:
        """Closes this worker's end only."""
        self._channel.close()
        self._end()

    def _check_open(self) -> None:
        if self._channel.closed.done():
            raise StoreUnavailable(_CLOSED)

    def _read(self, *request: object) -> Future[Any]:
        return self._channel.call("read", *request)

    # What the owner of the store tells

    def _opened(self, revision: Revision, compacted: Revision, trouble: str | None) -> None:
        self._feeds.revision, self._feeds.compacted = revision, compacted
        self._trouble = trouble

    def _receive(self, events: list[tuple[Any, ...]], revision: Revision) -> None:
        received = [
            StoreEvent(_CHANGES[change], key_of(*place), at, body) for change, place, at, body in events
        ]
        self._feeds.publish(received, revision)
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for wanted, future in waiting:
                if wanted > revision:
                    self._waiting.append((wanted, future))
                elif not future.done():
                    future.set_result(None)

    def _compacted(self, upto: Revision) -> None:
        self._feeds.compacted = max(self._feeds.compacted, upto)

    def _set_trouble(self, trouble: str | None) -> None:
        self._trouble = trouble

    def _end(self) -> None:
        self._feeds.close(_CLOSED)
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(StoreUnavailable(_CLOSED))
        self._waiting.clear()
