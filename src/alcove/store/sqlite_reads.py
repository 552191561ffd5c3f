"""Reads of the embedded store's log: snapshots, history, and the newest row of every key.

Used by the process that owns the store and, through a channel, by the workers that share it.
"""

import sys
from asyncio import Future
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Any

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.store.base import (
    Compacted,
    RevisionInFuture,
    StoreChangeType,
    StoreEvent,
    StoreRecord,
    StoreSnapshot,
)
from alcove.store.keys import resource_named, resource_text
from alcove.store.sqlite_file import Row
from alcove.store.sqlite_plan import Heads
from alcove.store.sqlite_rows import DELETED, revision_of

Read = Callable[..., "Future[Any]"]
"""Sends `newest` or `history`, with their arguments, to the process that reads the file; the result is a list of
rows."""


NewHeads = Callable[[Heads, Revision], None]
"""Called with the heads at a revision."""


class SqliteReads:
    def __init__(self, read: Read, new_heads: NewHeads | None = None) -> None:
        """`new_heads` is called with the heads when all objects are read (`pages`)."""
        self._read = read
        self._new_heads = new_heads

    async def snapshot(
        self,
        at: Revision | None,
        newest: Callable[[], Awaitable[Revision]],
        resource: GroupResource | None,
        tenant: TenantId | None,
        namespace: str | None,
    ) -> StoreSnapshot:
        """See `Store.snapshot`."""
        text = None if resource is None else resource_text(resource)
        columns = {"resource": text, "tenant": tenant, "namespace": namespace}
        narrow = {column: value for column, value in columns.items() if value is not None}
        while True:
            present = await newest()
            revision = present if at is None else at
            if revision > present:
                raise RevisionInFuture(present)
            try:
                pages = self._newest(revision, narrow, bodies=True)
                return StoreSnapshot(revision, [record async for page in pages for record in _records(page)])
            except Compacted:
                # The revision was compacted while its pages were read: read the newest one again.
                if at is not None:
                    raise

    async def pages(
        self, at: Revision, newest: Callable[[], Awaitable[Revision]]
    ) -> AsyncIterator[Sequence[StoreRecord]]:
        """See `Store.pages`."""
        present = await newest()
        if at > present:
            raise RevisionInFuture(present)
        heads: Heads = {}
        async for page in self._newest(at, {}, bodies=True):
            records = _records(page)
            if self._new_heads is not None:
                heads.update((record.key, row[0]) for record, row in zip(records, page, strict=True))
            yield records
        if self._new_heads is not None:
            self._new_heads(heads, at)

    async def history(self, after: Revision, upto: Revision) -> Sequence[StoreEvent]:
        rows: list[Row] = await self._read("history", after, upto, True)
        return [StoreEvent(StoreChangeType(row[1]), _key(row), _revision(row), row[-1]) for row in rows]

    async def heads(self, at: Revision) -> Heads:
        return {_key(row): row[0] async for page in self._newest(at, {}, bodies=False) for row in page}

    async def update(self, heads: Heads, after: Revision, upto: Revision) -> None:
        """Makes heads at revision `after` those at `upto`."""
        while after < upto:
            rows: list[Row] = await self._read("history", after, upto, False)
            for row in rows:
                key = _key(row)
                heads.pop(key, None)
                if row[1] != DELETED:
                    heads[key] = row[0]
            after = _revision(rows[-1]) if rows else upto

    async def _newest(
        self, at: Revision, narrow: dict[str, str], *, bodies: bool
    ) -> AsyncIterator[Sequence[Row]]:
        """The newest rows of the objects that existed at `at`. Pages need no common transaction: past rows do
        not change."""
        page: list[Row] = await self._read("newest", at, narrow, None, bodies)
        while page:
            # Request the next page before using this one: the worker reads while this process decodes.
            next_page = self._read("newest", at, narrow, page[-1][2:6], bodies)
            yield [row for row in page if row[1] != DELETED]
            page = await next_page


def key_of(resource: str, tenant: str, namespace: str, name: str) -> Key:
    # Tenants and namespaces repeat in thousands of keys: interning saves memory.
    return Key(
        resource_named(resource), TenantId(sys.intern(tenant)), sys.intern(namespace), _shared_name(name)
    )


def _key(row: Row) -> Key:
    return key_of(*row[2:6])


@lru_cache(maxsize=4096)
def _shared_name(name: str) -> str:
    """One string for the names that objects of many tenants have. Not interned: most names are used once."""
    return name


def _records(rows: Sequence[Row]) -> list[StoreRecord]:
    return [
        StoreRecord(key_of(resource, tenant, namespace, name), Revision(revision_of(row_id)), body)
        for row_id, _, resource, tenant, namespace, name, body in rows
    ]


def _revision(row: Row) -> Revision:
    return Revision(revision_of(row[0]))
