"""A cluster's state in one file, and back: the embedded store and the keys, as a tar archive that only its owner reads.

    store.db    one unchanging view of the store, taken while it is written to
    pki/…       the cluster's authority and the key of its tokens: without them no credential would be good any more

A restored store goes on at a revision that the cluster never reached before, and its history begins there. So a client
that saw what happened after the backup is told to list anew (410), and never mistakes a new revision for an old one.
What runs on an etcd is backed up there.
"""

from __future__ import annotations

import fcntl
import io
import os
import re
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import Struct

from alcove.store.sqlite_file import KEY, SqliteFile, UnusableFile
from alcove.store.sqlite_rows import DELETED, revision_of

STORE = "store.db"
PKI = "pki"
REVISIONS_SKIPPED = 10**12
"""More than a store takes between a backup and its restore: 10,000 writes a second for three years."""
_NEWEST = f"SELECT max(id) FROM log GROUP BY {', '.join(KEY)}"
_KEY_FILE = re.compile(rf"{PKI}/[A-Za-z0-9][A-Za-z0-9._-]*")


class BackupFailed(Exception):
    """The text says why, and what to do."""


class Backup(Struct, frozen=True):
    revision: int
    objects: int
    size_bytes: int


def save(data: Path, file: Path) -> Backup:
    """Writes the state in `data` to the new `file`, while its API server runs or not. Raises BackupFailed, OSError."""
    if not (data / STORE).exists():
        raise BackupFailed(
            f"there is no store in {data}: what runs on etcd is backed up by `etcdctl snapshot save`"
        )
    if file.exists():
        raise BackupFailed(f"{file} is there already")
    with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as folder:
        copy = Path(folder) / STORE
        with _failing(data / STORE):
            _copy_store(data / STORE, copy)
            made = _describe(copy)
        archive = Path(folder) / file.name
        with open(archive, "xb", opener=_open_private) as out:
            with tarfile.open(fileobj=out, mode="w") as tar:
                tar.add(copy, STORE)
                for key in sorted((data / PKI).iterdir()):
                    tar.add(key, f"{PKI}/{key.name}")
            out.flush()
            os.fsync(out.fileno())
        archive.rename(file)
        _sync_folder(file.parent)
    return Backup(made.revision, made.objects, file.stat().st_size)


def restore(file: Path, data: Path, *, replace: bool = False) -> Backup:
    """Puts the state in `file` into `data`, whose API server must be down; with `replace`, what is there is set aside.

    Nothing in `data` changes before the whole of it is known to be good. Raises BackupFailed, OSError.
    """
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked(data), tempfile.TemporaryDirectory(prefix=".restore.", dir=data) as name:
        folder = Path(name)
        _unpack(file, folder)
        with _failing(file, folder / STORE):
            # The same checks as at every start: whose file it is, its form, its pages.
            SqliteFile(str(folder / STORE), None, 0.0).close()
            _begin_anew(folder / STORE)
            made = _describe(folder / STORE)
        there = [each for each in (data / STORE, data / PKI) if each.exists()]
        if there and not replace:
            raise BackupFailed(f"{data} has a state already: --replace sets it aside")
        _set_aside(data)
        (folder / PKI).rename(data / PKI)
        (folder / STORE).rename(data / STORE)
        _sync_folder(data)
    return made


def _copy_store(source: Path, copy: Path) -> None:
    os.close(_open_private(str(copy), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)) as connection:
        # Reads one view of it: who writes meanwhile does not wait.
        connection.execute("VACUUM INTO ?", (str(copy),))


def _describe(path: Path) -> Backup:
    with closing(sqlite3.connect(path)) as connection:
        newest, compacted = connection.execute(
            "SELECT coalesce(max(id), 0), (SELECT value FROM meta WHERE name = 'compacted') FROM log"
        ).fetchone()
        query = f"SELECT count(*) FROM log WHERE id IN ({_NEWEST}) AND change != ?"
        objects = connection.execute(query, (DELETED,)).fetchone()[0]
    return Backup(max(revision_of(newest), compacted), objects, path.stat().st_size)


def _begin_anew(path: Path) -> None:
    """Keeps the newest of every object, and no history; the next revision is one that nobody knows."""
    revision = _describe(path).revision + REVISIONS_SKIPPED
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"DELETE FROM log WHERE id NOT IN ({_NEWEST}) OR change = ?", (DELETED,))
        connection.execute("UPDATE meta SET value = ? WHERE name IN ('compacted', 'swept')", (revision,))


def _unpack(file: Path, folder: Path) -> None:
    """Only what a backup has: names of anything else could lead out of the folder."""
    (folder / PKI).mkdir(mode=0o700)
    try:
        with tarfile.open(file) as tar:
            for member in tar:
                if not member.isfile() or not (member.name == STORE or _KEY_FILE.fullmatch(member.name)):
                    raise BackupFailed(f"{file} is no backup: it has {member.name}")
                content = tar.extractfile(member)
                assert content is not None
                with content, open(folder / member.name, "xb", opener=_open_private) as out:
                    shutil.copyfileobj(content, out, io.DEFAULT_BUFFER_SIZE << 4)
                    out.flush()
                    os.fsync(out.fileno())
    except tarfile.TarError as error:
        raise BackupFailed(f"{file} is no backup: {error}") from error
    if not (folder / STORE).exists() or not (folder / PKI / "ca.key").exists():
        raise BackupFailed(f"{file} is no whole backup: it lacks the store or the keys")


def _set_aside(data: Path) -> None:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for name in (STORE, f"{STORE}-wal", f"{STORE}-shm", PKI):
        if (data / name).exists():
            aside = data / f"replaced-{stamp}"
            aside.mkdir(mode=0o700, exist_ok=True)
            (data / name).rename(aside / name)


@contextmanager
def _failing(path: Path, opened: Path | None = None) -> Iterator[None]:
    """Failures are told of `path`, which a person knows, also where it was `opened` as another."""
    try:
        yield
    except UnusableFile as error:
        raise BackupFailed(str(error).replace(str(opened), str(path))) from error
    except sqlite3.Error as error:
        raise BackupFailed(f"{path}: {error}") from error


@contextmanager
def _locked(data: Path) -> Iterator[None]:
    """The store's own lock: nobody serves it meanwhile."""
    with open(data / f"{STORE}.lock", "w", opener=_open_private) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupFailed(f"{data} is in use: stop its API server first (`alcove down`)") from error
        yield


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
