import asyncio
from pathlib import Path

import pytest

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.store.base import StoreUnavailable, WriteOp
from alcove.store.compaction import Compactor, RetentionPolicy
from alcove.store.sqlite import SqliteStore

KEEP = RetentionPolicy(seconds=300, revisions_max=1_000, every_seconds=30)


@pytest.fixture
async def store(tmp_path: Path) -> SqliteStore:
    return await SqliteStore.open(tmp_path / "store.db")


def op(name: str) -> WriteOp:
    return WriteOp(Key(GroupResource("", "pods"), TenantId("a"), "n", name), b"{}")


def test_history_of_the_last_minutes_is_kept() -> None:
    compactor = Compactor(NotImplemented, KEEP)
    due = [compactor.due(float(now), Revision(now)) for now in range(0, 631, 30)]
    assert due[:10] == [0] * 10
    assert due[10:] == [now - 300 for now in range(300, 631, 30)]


def test_so_many_revisions_are_kept_at_most_however_fast_they_come() -> None:
    compactor = Compactor(NotImplemented, KEEP)
    assert compactor.due(0.0, Revision(50)) <= 0
    assert compactor.due(30.0, Revision(5_000)) == 4_000


def test_observed_revisions_are_bounded() -> None:
    compactor = Compactor(NotImplemented, KEEP)
    for now in range(0, 100_000, 30):
        compactor.due(float(now), Revision(now))
    assert len(compactor._observed) <= 11


async def test_running_compacts_and_survives_a_store_that_cannot(store: SqliteStore) -> None:
    now = 0.0
    naps = 0

    async def sleep(seconds: float) -> None:
        nonlocal now, naps
        naps += 1
        now += seconds
        if naps == 5:
            await store.close()
        if naps == 8:
            raise asyncio.CancelledError
        if naps < 5:
            await store.write([op("a")])

    compactor = Compactor(
        store, RetentionPolicy(seconds=60, every_seconds=30), clock=lambda: now, sleep=sleep
    )
    with pytest.raises(asyncio.CancelledError):
        await compactor.run()
    assert naps == 8
    assert await store.compacted() == 2
    with pytest.raises(StoreUnavailable):
        await store.write([op("a")])
