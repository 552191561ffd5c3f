"""Backup and restore of a cluster's state: the embedded store and the keys, as a tar archive with mode 0600.

    store.db    a consistent snapshot of the store, taken while it is written to
    pki/…       the cluster's CA and token signing keys: without them all credentials become invalid

Encrypted objects stay encrypted in it, and their keys (`encryption.yaml`) are not in it: who finds the file cannot
read the secrets, and who restores it on another machine has to bring that file along.

A restored store continues at a revision that the cluster never reached before, and its history begins there.
So a client that saw changes after the backup gets 410 and lists again; it never mistakes a new revision for
an old one. A cluster on etcd is backed up with etcd's tools.
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
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import Struct, structs

from alcove.api.ids import Key, TenantId
from alcove.cli.private_files import new_file, open_private, sync_directory
from alcove.store import encryption_config
from alcove.store.base import StoreOpenError
from alcove.store.encryption import MARK, Encryption, UnreadableBody
from alcove.store.encryption_config import ENCRYPTION_FILE
from alcove.store.keys import resource_named
from alcove.store.sqlite_file import KEY, SqliteFile, UnusableFile
from alcove.store.sqlite_rows import DELETED, revision_of

STORE = "store.db"
PKI = "pki"
REVISIONS_SKIPPED = 10**12
"""More revisions than a store uses between a backup and its restore: 10,000 writes a second for three
years."""
_NEWEST = f"SELECT max(id) FROM log GROUP BY {', '.join(KEY)}"
_ENCRYPTED = f"substr(body, 1, {len(MARK)}) = ?"
_KEY_FILE = re.compile(rf"{PKI}/[A-Za-z0-9][A-Za-z0-9._-]*")


class BackupFailed(Exception):
    """The message says why, and what to do."""


class Backup(Struct, frozen=True):
    revision: int
    objects: int
    size_bytes: int
    encrypted: int = 0
    """The number of encrypted objects."""
    unreadable: dict[str, int] = {}
    """After a restore: reasons why objects cannot be decrypted with the directory's keys, and their number."""


def save(data: Path, file: Path) -> Backup:
    """Writes the state in `data` to the new `file`, while its API server runs or not. Raises BackupFailed, OSError."""
    if not (data / STORE).exists():
        raise BackupFailed(
            f"no store found in {data}; back up a cluster on etcd with `etcdctl snapshot save`"
        )
    if file.exists():
        raise BackupFailed(f"{file} already exists")
    with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as directory:
        copy = Path(directory) / STORE
        with _translate_errors(data / STORE):
            _copy_store(data / STORE, copy)
            backup = _describe(copy)
        with new_file(file) as out, tarfile.open(fileobj=out, mode="w") as tar:
            tar.add(copy, STORE)
            for key in sorted((data / PKI).iterdir()):
                tar.add(key, f"{PKI}/{key.name}")
    return structs.replace(backup, size_bytes=file.stat().st_size)


def restore(file: Path, data: Path, *, replace: bool = False) -> Backup:
    """Restores `file` into `data`, whose API server must be down; with `replace`, existing state is moved
    aside.

    `data` is unchanged until the whole archive is verified. Raises BackupFailed, OSError.
    """
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked(data), tempfile.TemporaryDirectory(prefix=".restore.", dir=data) as name:
        directory = Path(name)
        _unpack(file, directory)
        with _translate_errors(file, directory / STORE):
            # Runs the checks of every start: owner, format, page integrity.
            SqliteFile(str(directory / STORE), None, 0.0).close()
            _reset_history(directory / STORE)
            backup = _describe(directory / STORE)
            backup = structs.replace(backup, unreadable=_unreadable(directory / STORE, data))
        existing = [each for each in (data / STORE, data / PKI) if each.exists()]
        if existing and not replace:
            raise BackupFailed(f"{data} already contains a cluster's state; use --replace to move it aside")
        _set_aside(data)
        (directory / PKI).rename(data / PKI)
        (directory / STORE).rename(data / STORE)
        sync_directory(data)
    return backup


def encrypted_objects(data: Path) -> int:
    """The number of encrypted objects in the store in `data`; 0 if there is none that can be read."""
    if not (data / STORE).exists():
        return 0
    try:
        return _describe(data / STORE).encrypted
    except sqlite3.Error:
        return 0  # The API server says what is wrong with it.


def _copy_store(source: Path, copy: Path) -> None:
    os.close(open_private(str(copy), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)) as connection:
        # Reads a snapshot: concurrent writers are not blocked.
        connection.execute("VACUUM INTO ?", (str(copy),))


def _describe(path: Path) -> Backup:
    with closing(sqlite3.connect(path)) as connection:
        newest, compacted = connection.execute(
            "SELECT coalesce(max(id), 0), (SELECT value FROM meta WHERE name = 'compacted') FROM log"
        ).fetchone()
        query = f"SELECT count(*) FROM log WHERE id IN ({_NEWEST}) AND change != ?"
        objects = connection.execute(query, (DELETED,)).fetchone()[0]
        encrypted = connection.execute(f"{query} AND {_ENCRYPTED}", (DELETED, MARK)).fetchone()[0]
    return Backup(max(revision_of(newest), compacted), objects, path.stat().st_size, encrypted)


def _unreadable(store: Path, data: Path) -> dict[str, int]:
    """Why encrypted objects cannot be read with the keys in `data`, with their number. Raises BackupFailed."""
    reasons: Counter[str] = Counter()
    try:
        file = data / ENCRYPTION_FILE
        encryption = encryption_config.load(file) if file.exists() else Encryption()
    except StoreOpenError as error:
        raise BackupFailed(str(error)) from error
    with closing(sqlite3.connect(store)) as connection:
        query = f"SELECT {', '.join(KEY)}, body FROM log WHERE id IN ({_NEWEST}) AND {_ENCRYPTED}"
        for resource, tenant, namespace, name, body in connection.execute(query, (MARK,)):
            key = Key(resource_named(resource), TenantId(tenant), namespace, name)
            try:
                encryption.providers(key.resource).open(key, body)
            except UnreadableBody as error:
                reasons[str(error)] += 1
    return dict(reasons)


def _reset_history(path: Path) -> None:
    """Keeps the newest version of every object and no history; the next revision was never used before."""
    revision = _describe(path).revision + REVISIONS_SKIPPED
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"DELETE FROM log WHERE id NOT IN ({_NEWEST}) OR change = ?", (DELETED,))
        connection.execute("UPDATE meta SET value = ? WHERE name IN ('compacted', 'swept')", (revision,))


def _unpack(file: Path, directory: Path) -> None:
    """Extracts the expected members only: other names could lead outside the directory."""
    (directory / PKI).mkdir(mode=0o700)
    try:
        with tarfile.open(file) as tar:
            for member in tar:
                if not member.isfile() or not (member.name == STORE or _KEY_FILE.fullmatch(member.name)):
                    raise BackupFailed(f"{file} is not a backup: unexpected member {member.name}")
                content = tar.extractfile(member)
                assert content is not None
                with content, open(directory / member.name, "xb", opener=open_private) as out:
                    shutil.copyfileobj(content, out, io.DEFAULT_BUFFER_SIZE << 4)
                    out.flush()
                    os.fsync(out.fileno())
    except tarfile.TarError as error:
        raise BackupFailed(f"{file} is not a backup: {error}") from error
    if not (directory / STORE).exists() or not (directory / PKI / "ca.key").exists():
        raise BackupFailed(f"{file} is an incomplete backup: the store or the keys are missing")


def _set_aside(data: Path) -> None:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for name in (STORE, f"{STORE}-wal", f"{STORE}-shm", PKI):
        if (data / name).exists():
            aside = data / f"replaced-{stamp}"
            aside.mkdir(mode=0o700, exist_ok=True)
            (data / name).rename(aside / name)


@contextmanager
def _translate_errors(path: Path, opened: Path | None = None) -> Iterator[None]:
    """Errors name `path`, which the user knows, even if the file was `opened` under another path."""
    try:
        yield
    except UnusableFile as error:
        raise BackupFailed(str(error).replace(str(opened), str(path))) from error
    except sqlite3.Error as error:
        raise BackupFailed(f"{path}: {error}") from error


@contextmanager
def _locked(data: Path) -> Iterator[None]:
    """Holds the store's lock, so that no API server can open it."""
    with open(data / f"{STORE}.lock", "w", opener=open_private) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupFailed(f"{data} is in use; stop its API server first (`alcove down`)") from error
        yield
