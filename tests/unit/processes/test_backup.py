"""A backup is whole and private; a restore changes nothing before it knows that it can, and begins a new history."""

import asyncio
import io
import sqlite3
import tarfile
from pathlib import Path

import pytest

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.processes.backup import PKI, REVISIONS_SKIPPED, STORE, BackupFailed, restore, save
from alcove.store.base import Compacted, WriteOp
from alcove.store.sqlite import SqliteStore

KEYS = {"ca.key": b"key", "ca.crt": b"certificate", "sa.key": b"tokens"}


def key(name: str) -> Key:
    return Key(GroupResource("", "configmaps"), TenantId("acme"), "default", name)


async def filled(data: Path) -> Revision:
    """A store with history: b was changed, c is gone."""
    (data / PKI).mkdir(parents=True)
    for name, content in KEYS.items():
        (data / PKI / name).write_bytes(content)
    store = await SqliteStore.open(data / STORE)
    for name, body in (("a", b"1"), ("b", b"1"), ("c", b"1"), ("b", b"2"), ("c", None)):
        revision = await store.write([WriteOp(key(name), body)])
    await store.close()
    return revision


@pytest.fixture
def file(tmp_path: Path) -> Path:
    asyncio.run(filled(tmp_path / "old"))
    save(tmp_path / "old", tmp_path / "backup.tar")
    return tmp_path / "backup.tar"


async def test_everything_comes_back_in_a_history_of_its_own(tmp_path: Path) -> None:
    revision = await filled(tmp_path / "old")
    saved = save(tmp_path / "old", tmp_path / "backup.tar")
    assert (saved.revision, saved.objects) == (revision, 2)
    assert (tmp_path / "backup.tar").stat().st_mode & 0o777 == 0o600
    restored = restore(tmp_path / "backup.tar", tmp_path / "new")
    assert restored.revision == revision + REVISIONS_SKIPPED
    assert {each.name: each.read_bytes() for each in (tmp_path / "new" / PKI).iterdir()} == KEYS
    store = await SqliteStore.open(tmp_path / "new" / STORE)
    try:
        snapshot = await store.snapshot()
        assert {each.key.name: each.body for each in snapshot.records} == {"a": b"1", "b": b"2"}
        assert {int(each.revision) for each in snapshot.records} <= set(range(revision))
        with pytest.raises(Compacted):
            async with store.feed(revision):
                pass
        assert await store.write([WriteOp(key("d"), b"1")]) == restored.revision + 1
        await store.compact(await store.revision())
        assert len((await store.snapshot()).records) == 3
    finally:
        await store.close()


async def test_a_store_in_use_is_saved_and_not_replaced(tmp_path: Path, file: Path) -> None:
    store = await SqliteStore.open(tmp_path / "old" / STORE)
    try:
        await store.write([WriteOp(key("d"), b"1")])
        assert save(tmp_path / "old", tmp_path / "later.tar").objects == 3
        with pytest.raises(BackupFailed, match="in use"):
            restore(file, tmp_path / "old", replace=True)
        await store.write([WriteOp(key("e"), b"1")])
    finally:
        await store.close()


def test_what_is_there_is_set_aside_only_when_asked(tmp_path: Path, file: Path) -> None:
    before = (tmp_path / "old" / STORE).read_bytes()
    with pytest.raises(BackupFailed, match="--replace"):
        restore(file, tmp_path / "old")
    assert (tmp_path / "old" / STORE).read_bytes() == before
    restore(file, tmp_path / "old", replace=True)
    (aside,) = (tmp_path / "old").glob("replaced-*")
    assert (aside / STORE).read_bytes() == before and (aside / PKI / "ca.key").read_bytes() == b"key"
    assert not list((tmp_path / "old").glob(".restore.*"))


def test_a_damaged_store_is_replaced(tmp_path: Path, file: Path) -> None:
    (tmp_path / "old" / STORE).write_bytes(b"nonsense" * 1000)
    assert restore(file, tmp_path / "old", replace=True).objects == 2


def test_no_file_is_overwritten_and_nothing_is_left_by_a_failure(tmp_path: Path, file: Path) -> None:
    content = file.read_bytes()
    with pytest.raises(BackupFailed, match="already exists"):
        save(tmp_path / "old", file)
    assert file.read_bytes() == content
    with pytest.raises(BackupFailed, match="etcdctl"):
        save(tmp_path / "nowhere", tmp_path / "other.tar")
    (tmp_path / "old" / STORE).write_bytes(b"nonsense" * 1000)
    with pytest.raises(BackupFailed, match="not a database"):
        save(tmp_path / "old", tmp_path / "other.tar")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["backup.tar", "old"]


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("name", ["../store.db", "/store.db", "pki/../../x", "pki/.x", "other", "pki/a/b"])
def test_an_archive_with_anything_else_is_refused(tmp_path: Path, name: str) -> None:
    strange = archive(tmp_path / "strange.tar", {name: b"x"})
    with pytest.raises(BackupFailed, match="not a backup"):
        restore(strange, tmp_path / "new")
    assert sorted(each.name for each in (tmp_path / "new").iterdir()) == [f"{STORE}.lock"]


def test_half_a_backup_is_refused(tmp_path: Path, file: Path) -> None:
    half = tmp_path / "half.tar"
    half.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(BackupFailed):
        restore(half, tmp_path / "new")
    half.write_bytes(b"x" * 5000)
    with pytest.raises(BackupFailed, match="not a backup"):
        restore(half, tmp_path / "new")
    archive(half, {"pki/ca.key": b"x"})
    with pytest.raises(BackupFailed, match="incomplete backup"):
        restore(half, tmp_path / "new")


def test_a_backup_of_a_newer_version_is_refused(tmp_path: Path, file: Path) -> None:
    with tarfile.open(file) as tar:
        stored = tar.extractfile(STORE)
        assert stored is not None
        (tmp_path / STORE).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / STORE).write_bytes(stored.read())
    connection = sqlite3.connect(tmp_path / STORE)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    newer = archive(
        tmp_path / "newer.tar",
        {STORE: (tmp_path / STORE).read_bytes(), **{f"{PKI}/{name}": each for name, each in KEYS.items()}},
    )
    with pytest.raises(BackupFailed, match=r"newer\.tar has format 2"):
        restore(newer, tmp_path / "new")
    assert not (tmp_path / "new" / STORE).exists()
