"""Tests of the embedded store only; the promises of all stores are tested in tests/contract."""

import asyncio
import os
import signal
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.store import sqlite_commits
from alcove.store.base import (
    ABSENT,
    RevisionMismatch,
    StoreOpenError,
    StoreUnavailable,
    WriteOp,
    WriteOutcomeUnknown,
)
from alcove.store.sqlite import SqliteStore

KIB = 1 << 10


def op(name: str, body: bytes | None = b"{}", expected: Revision | None = None) -> WriteOp:
    return WriteOp(Key(GroupResource("", "pods"), TenantId("a"), "n", name), body, expected)


def file_modes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}


async def names(store: SqliteStore) -> set[str]:
    return {record.key.name for record in (await store.snapshot()).records}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path / "store.db")
    yield opened
    await opened.close()


async def test_file_is_held_by_one_store_at_a_time(store: SqliteStore, tmp_path: Path) -> None:
    with pytest.raises(StoreOpenError, match=r"store\.db is in use by another process"):
        await SqliteStore.open(tmp_path / "store.db", lock_seconds_max=0)
    await store.write([op("still-works")])


async def test_opening_waits_for_one_that_is_about_to_let_go(tmp_path: Path) -> None:
    first = await SqliteStore.open(tmp_path / "store.db")
    opening = asyncio.create_task(SqliteStore.open(tmp_path / "store.db"))
    await first.write([op("a")])
    await first.close()
    second = await opening
    assert await names(second) == {"a"}
    await second.close()


async def test_files_are_for_their_owner_only(store: SqliteStore, tmp_path: Path) -> None:
    await store.write([op("a")])
    assert file_modes(tmp_path) == dict.fromkeys(
        ("store.db", "store.db-wal", "store.db-shm", "store.db.lock"), 0o600
    )


async def test_writers_of_one_turn_share_commits(tmp_path: Path) -> None:
    commits: list[int] = []
    store = await SqliteStore.open(tmp_path / "store.db", observe=lambda _s, count: commits.append(count))
    await asyncio.gather(*(store.write([op(f"p{n}")]) for n in range(200)))
    await store.close()
    assert commits == [200]


async def test_commit_is_bounded_in_operations_and_bytes(tmp_path: Path) -> None:
    commits: list[int] = []
    store = await SqliteStore.open(tmp_path / "store.db", observe=lambda _s, count: commits.append(count))
    await asyncio.gather(*(store.write([op(f"p{n}")]) for n in range(1_200)))
    assert commits == [512, 512, 176]
    commits.clear()
    big = bytes(3 << 20)
    await asyncio.gather(*(store.write([op(f"big{n}", big)]) for n in range(5)))
    assert commits == [3, 2]
    await store.close()


async def test_queue_of_writes_is_bounded(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_commits, "WRITES_QUEUED_MAX", 10)
    outcomes = await asyncio.gather(*(store.write([op(f"p{n}")]) for n in range(12)), return_exceptions=True)
    assert [isinstance(outcome, StoreUnavailable) for outcome in outcomes] == [False] * 10 + [True] * 2


async def test_full_file_refuses_writes_until_there_is_room(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db", bytes_max=256 * KIB)
    acknowledged: list[str] = []
    with pytest.raises(StoreUnavailable, match="full"):
        for n in range(100):
            await store.write([op(f"p{n}", bytes(8 * KIB))])
            acknowledged.append(f"p{n}")
    assert 10 < len(acknowledged) < 32
    assert await names(store) == set(acknowledged)
    assert store.trouble() is None
    revision = await store.revision()
    # What was refused left no trace: its name is still free.
    await store.write([op(acknowledged[0], b"small")])
    await store.compact(await store.revision())
    await store.write([op(f"p{len(acknowledged)}", b"small", expected=ABSENT)])
    assert await store.revision() == revision + 2
    await store.close()


async def test_one_refused_for_space_takes_its_commit_with_it_but_nothing_is_half_written(
    tmp_path: Path,
) -> None:
    store = await SqliteStore.open(tmp_path / "store.db", bytes_max=256 * KIB)
    writes = [store.write([op(f"a{n}", bytes(8 * KIB)), op(f"b{n}", bytes(8 * KIB))]) for n in range(40)]
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
    assert await names(store) == set()
    await store.write([op("fits")])
    await store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.root
async def test_full_disk_refuses_writes_until_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(400 * KIB))
    store = await SqliteStore.open(small_disk / "store.db")
    acknowledged: list[str] = []
    with pytest.raises(StoreUnavailable, match="full") as refused:
        for n in range(200):
            await store.write([op(f"p{n}", bytes(8 * KIB))])
            acknowledged.append(f"p{n}")
    assert acknowledged and not isinstance(refused.value, WriteOutcomeUnknown)
    assert await names(store) == set(acknowledged)
    ballast.unlink()
    await store.write([op("after")])
    await store.close()
    store = await SqliteStore.open(small_disk / "store.db")
    assert await names(store) == {*acknowledged, "after"}
    await store.close()


async def test_dead_process_makes_the_store_unavailable_and_loses_nothing(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db")
    await store.write([op("kept")])
    # It must not answer before it dies.
    os.kill(store.worker_pid, signal.SIGSTOP)
    await asyncio.to_thread(os.waitid, os.P_PID, store.worker_pid, os.WSTOPPED | os.WNOWAIT)
    writes = [asyncio.create_task(store.write([op(f"p{n}")])) for n in range(100)]
    await asyncio.sleep(0)
    os.kill(store.worker_pid, signal.SIGKILL)
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert all(isinstance(outcome, int | StoreUnavailable) for outcome in outcomes)
    assert any(isinstance(outcome, WriteOutcomeUnknown) for outcome in outcomes)
    with pytest.raises(StoreUnavailable, match="exited") as late:
        await store.write([op("late")])
    assert not isinstance(late.value, WriteOutcomeUnknown)
    with pytest.raises(StoreUnavailable):
        await store.snapshot()
    assert store.trouble() is not None
    await store.close()
    store = await SqliteStore.open(tmp_path / "store.db")
    assert "kept" in await names(store)
    await store.close()


async def test_signals_meant_for_the_server_do_not_end_its_store(store: SqliteStore) -> None:
    for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(store.worker_pid, sent)
    await store.write([op("a")])
    assert os.getpgid(store.worker_pid) != os.getpgid(0)


async def test_compaction_gives_space_back_to_new_writes(store: SqliteStore, tmp_path: Path) -> None:
    async def overwrite() -> int:
        for _ in range(30):
            await asyncio.gather(*(store.write([op(f"p{n}", bytes(4 * KIB))]) for n in range(20)))
        await store.compact(await store.revision())
        with sqlite3.connect(tmp_path / "store.db") as connection:
            return int(connection.execute("PRAGMA page_count").fetchone()[0])

    pages = [await overwrite() for _ in range(4)]
    assert pages[-1] < 1.2 * pages[0]


def record_reads(store: SqliteStore) -> list[tuple[object, ...]]:
    """The requests for rows from now on."""
    requests: list[tuple[object, ...]] = []
    read = store._reads._read

    def recorded(*request: object) -> "asyncio.Future[Any]":
        requests.append(request)
        return read(*request)

    store._reads._read = recorded
    return requests


@pytest.mark.parametrize("is_compacted", [False, True])
async def test_the_first_commit_after_a_start_knows_every_key(tmp_path: Path, is_compacted: bool) -> None:
    first = await SqliteStore.open(tmp_path / "store.db")
    old = await first.write([op("a"), op("b"), op("gone")])
    await first.write([op("gone", None)])
    changed = await first.write([op("a", b"2")])
    made = await first.write([op("c")])
    await first.close()
    second = await SqliteStore.open(tmp_path / "store.db")
    requests = record_reads(second)
    assert len([record async for page in second.pages(old) for record in page]) == 3
    if is_compacted:
        await second.compact(changed)
    for name, revision in (("a", changed), ("b", old), ("c", made), ("gone", ABSENT)):
        with pytest.raises(RevisionMismatch) as refused:
            await second.write([op(name, b"3", expected=Revision(99))])
        assert refused.value.actual == revision
        await second.write([op(name, b"3", expected=revision)])
    with_bodies = [request for request in requests if request[0] == "newest" and request[-1]]
    assert len(with_bodies) == 2, "a page, and one that is empty"
    if not is_compacted:
        assert [request for request in requests if request[0] == "newest"] == with_bodies
    await second.close()


async def test_a_write_before_anything_was_read_knows_every_key(tmp_path: Path) -> None:
    first = await SqliteStore.open(tmp_path / "store.db")
    revision = await first.write([op("a")])
    await first.close()
    second = await SqliteStore.open(tmp_path / "store.db")
    with pytest.raises(RevisionMismatch):
        await second.write([op("a", b"2", expected=ABSENT)])
    await second.write([op("a", b"2", expected=revision)])
    await second.close()


async def test_a_store_that_is_closed_before_its_keys_are_read_refuses_the_write(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db")
    writing = asyncio.ensure_future(store.submit([op("a")]))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(StoreUnavailable):
        await writing
