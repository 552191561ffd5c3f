"""Catching up with the store: concurrent waiters share one read, and none uses a read that began before it."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.apiserver.cache.cache import Cache
from alcove.store.base import StoreSnapshot, StoreUnavailable, WriteOp
from alcove.store.sqlite import SqliteStore

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


class RememberingStore(SqliteStore):
    """A store that remembers the last snapshot."""

    async def snapshot(self, *arguments: Any, **options: Any) -> StoreSnapshot:
        self.last = await super().snapshot(*arguments, **options)
        return self.last


async def test_what_was_loaded_at_the_start_is_not_kept_beside_the_cache(tmp_path: Path) -> None:
    store = await RememberingStore.open(tmp_path / "store.db")
    assert isinstance(store, RememberingStore)
    await store.write([WriteOp(KEY, b'{"metadata":{}}')])
    async with Cache(store, lambda _events: None) as cache:
        assert cache.entry(KEY) is not None
        references = sys.getrefcount(store.last)
        assert references == 2  # The store's, and the call's own.
    await store.close()


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
