"""The embedded store: one SQLite file, written and read by a separate worker process.

Writes go through `sqlite_commits`; reads use a channel of their own and never block the writer. A store
belongs to the event loop on which it was opened.
"""

import asyncio
from asyncio import Future
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from alcove.api.ids import GroupResource, Revision, TenantId
from alcove.store.base import Compacted, RevisionInFuture, StoreRecord, StoreSnapshot, WriteOp
from alcove.store.feed import Feeds, LogFeed, Published
from alcove.store.sqlite_channel import WorkerProcess
from alcove.store.sqlite_commits import Commits, Observe
from alcove.store.sqlite_plan import Heads
from alcove.store.sqlite_reads import SqliteReads

LOCK_SECONDS_MAX = 5.0
"""How long `open` waits until a server that was just killed has released the file."""

_CLOSED = "the store is closed"


class SqliteStore:
    """`Store` on one file. Created by `open`."""

    def __init__(self, process: WorkerProcess, revision: Revision, compacted: Revision) -> None:
        self._process = process
        self._reads = SqliteReads(process.reads.call, self._offer_heads)
        self._offered: tuple[Heads, Revision] | None = None
        """Heads that were read with all objects, for the first commit, and their revision."""
        self._feeds = Feeds(asyncio.get_running_loop(), self._reads.history, revision, compacted)
        self._commits: Commits
        self._closed: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        bytes_max: int | None = None,
        lock_seconds_max: float = LOCK_SECONDS_MAX,
        observe: Observe = lambda _seconds, _transactions: None,
    ) -> "SqliteStore":
        """Open the file, or create it if there is none. Raises StoreOpenError.

        `bytes_max` bounds the file: a write that would exceed it raises StoreUnavailable.
        """
        process = await WorkerProcess.start()
        try:
            opening = process.writes.call("open", str(path), bytes_max, lock_seconds_max)
            revision, compacted = await opening
            store = cls(process, revision, compacted)
            loop = asyncio.get_running_loop()
            store._commits = Commits(loop, process.writes, store._read_heads, store._feeds, observe)
            return store
        except BaseException:
            await process.stop()
            raise

    def prepare(self) -> None:
        """Read what the first write needs, so that it does not have to wait for that."""
        self._commits.prepare()

    def _offer_heads(self, heads: Heads, revision: Revision) -> None:
        """A cache reads everything at the start: it is not read a second time for the first commit."""
        if not self._commits.is_prepared:
            self._offered = heads, revision
            self._commits.prepare()

    async def _read_heads(self) -> Heads:
        offered, self._offered = self._offered, None
        if offered is not None:
            heads, revision = offered
            try:
                await self._reads.update(heads, revision, self._feeds.revision)
                return heads
            except Compacted:
                pass  # The history since then is gone.
        return await self._reads.heads(self._feeds.revision)

    @property
    def worker_pid(self) -> int:
        return self._process.pid

    def trouble(self) -> str | None:
        """The error due to which writes fail until the store is opened again; None if there is none."""
        return self._commits.refusal

    async def write(self, ops: Sequence[WriteOp]) -> Revision:
        return await self._commits.submit(ops)

    def submit(self, ops: Sequence[WriteOp]) -> "Future[Revision]":
        """As `write`, without a coroutine."""
        return self._commits.submit(ops)

    def read(self, *request: object) -> "Future[Any]":
        """Rows of the log; see `SqliteReads`."""
        return self._process.reads.call(*request)

    def on_publish(self, published: Published) -> None:
        """Calls `published` with the events of each commit, before feeds and writers get to know of it."""
        self._feeds.listener = published

    async def revision(self) -> Revision:
        return self._feeds.revision

    def known_revision(self) -> Revision:
        return self._feeds.revision

    async def compacted(self) -> Revision:
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
        if upto > self._feeds.revision:
            raise RevisionInFuture(self._feeds.revision)
        if upto > self._feeds.compacted:
            await self._commits.chore("compact_to", upto)
            self._feeds.compacted = max(self._feeds.compacted, upto)
        while await self._commits.chore("sweep"):
            pass

    async def close(self) -> None:
        if self._closed is None:
            self._closed = asyncio.create_task(self._close())
        await asyncio.shield(self._closed)

    async def _close(self) -> None:
        await self._commits.close(_CLOSED)
        self._feeds.close(_CLOSED)
        await self._process.stop()
