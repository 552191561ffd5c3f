"""Catching up with the store: concurrent waiters share one read, and none uses a read that began before it."""

import asyncio
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.apiserver.cache.cache import Cache
from alcove.store.base import OPS_MAX, StoreRecord, StoreUnavailable, WriteOp
from alcove.store.sqlite import SqliteStore
from alcove.store.sqlite_file import ROWS_PER_PAGE

EMPTY = b'{"metadata":{}}'
KEY = Key(GroupResource("", "configmaps"), TenantId("acme"), "n", "m")


class SlowStore(SqliteStore):
    """A store whose reads are delayed: the result is that of the time of the call, and arrives when the test
    allows it."""

    reads = 0
    at_once = True
    broken = False

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.answers = asyncio.Semaphore(0)

    async def revision(self) -> Revision:
        self.reads += 1
        newest = await super().revision()
        if not self.at_once:
            await self.answers.acquire()
        if self.broken:
            raise StoreUnavailable("nobody answers")
        return newest


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SlowStore]:
    opened = await SlowStore.open(tmp_path / "store.db")
    assert isinstance(opened, SlowStore)
    yield opened
    await opened.close()


@pytest.fixture
async def cache(store: SlowStore) -> AsyncIterator[Cache]:
    async with Cache(store, lambda _events: None) as cache:
        store.at_once, store.reads = False, 0
        yield cache


class PagedStore(SqliteStore):
    """A store that remembers how many records of its pages are in memory, and calls the test before each page."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.kept: list[weakref.ref[Page]] = []
        self.kept_most = 0
        self.before_page: Callable[[int], Awaitable[object]] | None = None

    async def pages(self, at: Revision) -> AsyncIterator[Sequence[StoreRecord]]:
        number = 0
        async for page in super().pages(at):
            if self.before_page is not None:
                await self.before_page(number)
            number += 1
            kept = Page(page)
            del page
            self.kept = [each for each in self.kept if each() is not None] + [weakref.ref(kept)]
            self.kept_most = max(self.kept_most, len(self.kept))
            yield kept
            del kept


class Page(list[StoreRecord]):
    """A list that can be referred to weakly."""


@pytest.fixture
async def paged(tmp_path: Path) -> AsyncIterator[PagedStore]:
    opened = await PagedStore.open(tmp_path / "store.db")
    assert isinstance(opened, PagedStore)
    for first in range(0, 3 * ROWS_PER_PAGE, OPS_MAX):
        await opened.write([WriteOp(numbered(n), EMPTY) for n in range(first, first + OPS_MAX)])
    await opened.compact(await opened.revision())  # Else all of it would be history.
    yield opened
    await opened.close()


def numbered(number: int) -> Key:
    return Key(KEY.resource, KEY.tenant, KEY.namespace, f"m-{number}")


async def test_what_was_loaded_at_the_start_is_not_kept_beside_the_cache(paged: PagedStore) -> None:
    async with Cache(paged, lambda _events: None) as cache:
        assert cache.count(KEY.tenant, KEY.resource) >= 3 * ROWS_PER_PAGE
        assert paged.kept_most <= 2  # The one that is loaded, and the one before it.
        assert all(each() is None for each in paged.kept)


async def test_others_run_between_the_pages_of_a_start(paged: PagedStore) -> None:
    turns: list[int] = []
    others = 0

    async def count() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    async def before_page(_number: int) -> None:
        turns.append(others)

    paged.before_page = before_page
    counting = asyncio.create_task(count())
    async with Cache(paged, lambda _events: None):
        counting.cancel()
    assert len(turns) >= 3 and len(set(turns)) == len(turns)


async def test_a_start_whose_history_is_compacted_meanwhile_begins_with_the_newest_state(
    paged: PagedStore,
) -> None:
    """By another worker of the server, or another server: with a million objects there is time for it."""
    before = await paged.revision()
    removed, changed = numbered(0), numbered(1)

    async def before_page(number: int) -> None:
        if number == 1:
            paged.before_page = None
            await paged.write([WriteOp(removed, None)])
            await paged.compact(await paged.write([WriteOp(changed, b'{"metadata":{"labels":{"a":"b"}}}')]))

    paged.before_page = before_page
    async with Cache(paged, lambda _events: None) as cache:
        assert cache.revision == await paged.revision() > before
        assert not cache.has(removed)
        entry = cache.entry(changed)
        assert entry is not None and entry.labels == {"a": "b"}
        stored = [each.length for each in cache.entries(KEY.tenant, KEY.resource)]
        assert cache.count(KEY.tenant, KEY.resource) == len(stored)
        assert cache.stored_bytes(KEY.tenant) == sum(stored)
        assert cache.history(KEY.tenant, KEY.resource, before) is None
        assert cache.history(KEY.tenant, KEY.resource, cache.revision) == []


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_thousand_waiters_share_two_reads_of_the_store(store: SlowStore, cache: Cache) -> None:
    waiting = [asyncio.create_task(cache.catch_up()) for _ in range(1000)]
    await settle()
    assert store.reads == 1
    store.answers.release()
    await asyncio.wait_for(waiting[0], 60)
    await settle()
    store.answers.release()
    await asyncio.wait_for(asyncio.gather(*waiting), 60)
    assert store.reads <= 2


async def test_a_later_waiter_does_not_use_an_older_read(store: SlowStore, cache: Cache) -> None:
    early = asyncio.create_task(cache.catch_up())
    await settle()
    written = await store.write([WriteOp(KEY, b'{"metadata":{}}')])
    late = asyncio.create_task(cache.catch_up())
    await settle()
    store.answers.release()
    await asyncio.wait_for(early, 60)
    await settle()
    assert not late.done()
    store.answers.release()
    await asyncio.wait_for(late, 60)
    assert cache.revision >= written


async def test_a_cancelled_waiter_does_not_cancel_the_others(store: SlowStore, cache: Cache) -> None:
    first, second = (asyncio.create_task(cache.catch_up()) for _ in range(2))
    await settle()
    first.cancel()
    store.answers.release()
    await asyncio.wait_for(second, 60)


async def test_an_unavailable_store_fails_the_wait_and_a_later_wait_succeeds(
    store: SlowStore, cache: Cache
) -> None:
    store.broken = True
    store.answers.release()
    with pytest.raises(StoreUnavailable):
        await cache.catch_up()
    store.broken = False
    store.answers.release()
    await asyncio.wait_for(cache.catch_up(), 60)
