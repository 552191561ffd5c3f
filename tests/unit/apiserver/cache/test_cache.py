"""Catching up with the store: all who wait share a question, and nobody takes the answer to an older one."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.apiserver.cache.cache import Cache
from alcove.store.base import StoreUnavailable, WriteOp
from alcove.store.sqlite import SqliteStore

KEY = Key(GroupResource("", "configmaps"), TenantId("acme"), "n", "m")


class SlowStore(SqliteStore):
    """One that is far away: what it answers was true when it was asked, and comes when the test lets it."""

    asked = 0
    at_once = True
    broken = False

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.answers = asyncio.Semaphore(0)

    async def revision(self) -> Revision:
        self.asked += 1
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
        store.at_once, store.asked = False, 0
        yield cache


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_thousand_share_two_questions(store: SlowStore, cache: Cache) -> None:
    waiting = [asyncio.create_task(cache.catch_up()) for _ in range(1000)]
    await settle()
    assert store.asked == 1
    store.answers.release()
    await asyncio.wait_for(waiting[0], 5)
    await settle()
    store.answers.release()
    await asyncio.wait_for(asyncio.gather(*waiting), 5)
    assert store.asked <= 2


async def test_who_comes_later_does_not_take_an_older_answer(store: SlowStore, cache: Cache) -> None:
    early = asyncio.create_task(cache.catch_up())
    await settle()
    written = await store.write([WriteOp(KEY, b'{"metadata":{}}')])
    late = asyncio.create_task(cache.catch_up())
    await settle()
    store.answers.release()
    await asyncio.wait_for(early, 5)
    await settle()
    assert not late.done()
    store.answers.release()
    await asyncio.wait_for(late, 5)
    assert cache.revision >= written


async def test_who_gives_up_stops_nobody_else(store: SlowStore, cache: Cache) -> None:
    first, second = (asyncio.create_task(cache.catch_up()) for _ in range(2))
    await settle()
    first.cancel()
    store.answers.release()
    await asyncio.wait_for(second, 5)


async def test_a_store_that_does_not_answer_is_told(store: SlowStore, cache: Cache) -> None:
    store.broken = True
    store.answers.release()
    with pytest.raises(StoreUnavailable):
        await cache.catch_up()
    store.broken = False
    store.answers.release()
    await asyncio.wait_for(cache.catch_up(), 5)
