"""The embedded store: one SQLite file, written and read by a separate worker process.

Writes go through `sqlite_commits`; reads use a channel of their own and never block the writer. A store
belongs to the event loop on which it was opened.
"""

import asyncio
import sys
from asyncio import Future
from collections.abc import AsyncIterator, Sequence
from functools import lru_cache
from pathlib import Path

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.store.base import (
    Compacted,
    RevisionInFuture,
    StoreChangeType,
    StoreEvent,
    StoreRecord,
    StoreSnapshot,
    WriteOp,
)
from alcove.store.feed import Feeds, LogFeed
from alcove.store.keys import resource_named, resource_text
from alcove.store.sqlite_channel import WorkerProcess
from alcove.store.sqlite_commits import Commits, Observe
from alcove.store.sqlite_file import Row
from alcove.store.sqlite_plan import Heads
from alcove.store.sqlite_rows import DELETED, revision_of

LOCK_SECONDS_MAX = 5.0
"""How long `open` waits until a server that was just killed has released the file."""

_CLOSED = "the store is closed"


class SqliteStore:
    """`Store` on one file. Created by `open`."""

    def __init__(self, process: WorkerProcess, revision: Revision, compacted: Revision) -> None:
        self._process = process
        self._feeds = Feeds(asyncio.get_running_loop(), self._history, revision, compacted)
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
            heads = await store._heads(revision)
            loop = asyncio.get_running_loop()
            store._commits = Commits(loop, process.writes, heads, store._feeds, observe)
            return store
        except BaseException:
            await process.stop()
            raise

    @property
    def worker_pid(self) -> int:
        return self._process.pid

    def trouble(self) -> str | None:
        """The error due to which writes fail until the store is opened again; None if there is none."""
        return self._commits.refusal

    async def write(self, ops: Sequence[WriteOp]) -> Revision:
        return await self._commits.write(ops)

    async def revision(self) -> Revision:
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
        text = None if resource is None else resource_text(resource)
        columns = {"resource": text, "tenant": tenant, "namespace": namespace}
        narrow = {column: value for column, value in columns.items() if value is not None}
        while True:
            revision = self._feeds.revision if at is None else at
            if revision > self._feeds.revision:
                raise RevisionInFuture(self._feeds.revision)
            try:
                rows = self._newest(revision, narrow, bodies=True)
                return StoreSnapshot(
                    revision, [StoreRecord(_key(row), _revision(row), row[-1]) async for row in rows]
                )
            except Compacted:
                # The revision was compacted while its pages were read: read the newest one again.
                if at is not None:
                    raise

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

    async def _history(self, after: Revision, upto: Revision) -> Sequence[StoreEvent]:
        rows = await self._read("history", after, upto)
        return [StoreEvent(StoreChangeType(row[1]), _key(row), _revision(row), row[-1]) for row in rows]

    async def _heads(self, at: Revision) -> Heads:
        return {_key(row): row[0] async for row in self._newest(at, {}, bodies=False)}

    async def _newest(self, at: Revision, narrow: dict[str, str], *, bodies: bool) -> AsyncIterator[Row]:
        """The newest rows of the objects that existed at `at`. Pages need no common transaction: past rows do
        not change."""
        page = await self._read("newest", at, narrow, None, bodies)
        while page:
            # Request the next page before using this one: the worker reads while this process decodes.
            next_page = self._read("newest", at, narrow, page[-1][2:6], bodies)
            for row in page:
                if row[1] != DELETED:
                    yield row
            page = await next_page

    def _read(self, *request: object) -> "Future[list[Row]]":
        return self._process.reads.call(*request)


def _key(row: Row) -> Key:
    _, _, resource, tenant, namespace, name, _ = row
    # Tenants and namespaces repeat in thousands of keys: interning saves memory.
    return Key(
        resource_named(resource), TenantId(sys.intern(tenant)), sys.intern(namespace), _shared_name(name)
    )


@lru_cache(maxsize=4096)
def _shared_name(name: str) -> str:
    """One string for the names that objects of many tenants have. Not interned: most names are used once."""
    return name


def _revision(row: Row) -> Revision:
    return Revision(revision_of(row[0]))
