"""The database file of the embedded store: its schema, its lock, and all statements on it.

    log   one row per change (`sqlite_rows`); `replaces` is the id of the key's previous row, 0 if there
          was none, and a delete's `body` is the object's last one
    meta  `compacted`: history up to this revision is not available;
          `swept`: rows of compacted history are removed up to this revision

Only one process at a time can open it: it holds a lock file beside the database, which the kernel releases
when the process exits. All calls block. Only the standard library is imported: see `sqlite_worker`.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from time import monotonic, sleep
from typing import IO

from alcove.store.sqlite_rows import COLUMNS, DELETED, WIDTH, first_id, revision_of

APPLICATION_ID = 0x416C6376
"""Marks a database as Alcove's ("Alcv")."""
FORMAT = 1

SCHEMA = """
CREATE TABLE log (
    id INTEGER PRIMARY KEY,
    change INTEGER NOT NULL,
    replaces INTEGER NOT NULL,
    resource TEXT NOT NULL,
    tenant TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX log_by_key ON log (resource, tenant, namespace, name);
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('compacted', 0), ('swept', 0);
"""

ROWS_PER_STATEMENT = 64
ROWS_PER_PAGE = 512
"""More than a transaction has, so that a page of history contains at least one whole transaction."""
BODY_BYTES_PER_PAGE = 4 << 20
SWEPT_REVISIONS_PER_COMMIT = 128
"""Small enough that a writer waits for a sweep not much longer than for a commit."""
PAGE_BYTES = 4_096
CHECKPOINT_PAGES = 4_000
LOCK_RETRY_SECONDS = 0.02

KEY = ("resource", "tenant", "namespace", "name")
Row = tuple[int, int, str, str, str, str, bytes]
"""id, change, resource, tenant, namespace, name, body."""
_ROW = ", ".join(column for column in COLUMNS if column != "replaces")

_SWEEP = """
DELETE FROM log WHERE id IN (
    SELECT replaces FROM log WHERE id >= :first AND id < :end
    UNION ALL
    SELECT id FROM log WHERE id >= :first AND id < :end AND change = :deleted
)
"""


class UnusableFile(Exception):
    """The file cannot be opened; the message says why."""


class CompactedError(Exception):
    """The requested revision is compacted; history begins after `revision`."""

    def __init__(self, revision: int) -> None:
        super().__init__(f"history begins after {revision}")
        self.revision = revision


class SqliteFile:
    """The open database: its lock and its one writing connection."""

    def __init__(self, path: str, bytes_max: int | None, lock_seconds_max: float) -> None:
        """Open or create the database. Raises UnusableFile."""
        self._path = path
        self._lock = _lock(path, lock_seconds_max)
        try:
            _make_private(path)
            self._connection = self._open(bytes_max)
            self._swept = _meta(self._connection, "swept")
        except sqlite3.Error as error:
            raise UnusableFile(f"{path}: {error}") from error

    def _open(self, bytes_max: int | None) -> sqlite3.Connection:
        connection = self.connect()
        _check_format(connection, self._path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        # Bodies of compacted history may be secrets from before encryption: their pages are overwritten.
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {2 * CHECKPOINT_PAGES * PAGE_BYTES}")
        if bytes_max is not None:
            connection.execute(f"PRAGMA max_page_count = {bytes_max // PAGE_BYTES}")
        _sync_directory(os.path.dirname(self._path) or ".")  # noqa: PTH120, pathlib doubles the start
        return connection

    def connect(self) -> sqlite3.Connection:
        """Open another connection, to be used by one thread at a time."""
        return sqlite3.connect(
            self._path,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=2 * ROWS_PER_STATEMENT,
        )

    def compacted(self) -> int:
        return _meta(self._connection, "compacted")

    def revision(self) -> int:
        newest = self._connection.execute("SELECT coalesce(max(id), 0) FROM log").fetchone()[0]
        # Compaction may have removed the newest rows, if they were deletes.
        return max(revision_of(newest), self.compacted())

    def append(self, values: list[object], wanted: Mapping[int, int]) -> dict[int, bytes]:
        """Commit all rows durably, or none. `values` are the rows' columns, concatenated.

        `wanted` maps the positions of rows without a body to the id of the row that has it; the bodies are
        returned by position.
        """
        bodies = {position: self._body(row_id) for position, row_id in wanted.items()}
        for position, body in bodies.items():
            values[position * WIDTH + WIDTH - 1] = body
        step = ROWS_PER_STATEMENT * WIDTH
        if len(values) <= step:
            self._connection.execute(_insert(len(values) // WIDTH), values)
            return bodies
        with _transaction(self._connection, "IMMEDIATE"):
            for start in range(0, len(values), step):
                part = values[start : start + step]
                self._connection.execute(_insert(len(part) // WIDTH), part)
        return bodies

    def _body(self, row_id: int) -> bytes:
        row = self._connection.execute("SELECT body FROM log WHERE id = ?", (row_id,)).fetchone()
        return bytes(row[0])

    def compact_to(self, upto: int) -> None:
        """Make history up to `upto` unavailable, durably. Its rows are removed by `sweep`."""
        self._connection.execute("UPDATE meta SET value = ? WHERE name = 'compacted'", (upto,))

    def sweep(self) -> bool:
        """Remove the obsolete rows of some compacted revisions. Returns whether there are more."""
        compacted = self.compacted()
        if self._swept >= compacted:
            return False
        # Revisions may be skipped (`WriteOp.after`).
        query = "SELECT min(id) FROM log WHERE id >= ? AND id < ?"
        row = self._connection.execute(query, (first_id(self._swept + 1), first_id(compacted + 1))).fetchone()
        first = compacted if row[0] is None else revision_of(row[0])
        end = min(max(self._swept, first - 1) + SWEPT_REVISIONS_PER_COMMIT, compacted)
        span = {"first": first_id(self._swept + 1), "end": first_id(end + 1), "deleted": DELETED}
        self._connection.execute(_SWEEP, span)
        if end == compacted:
            # Only at the end: sweeping a revision again is harmless, a second commit per step is expensive.
            self._connection.execute("UPDATE meta SET value = ? WHERE name = 'swept'", (end,))
        self._swept = end
        return end < compacted

    def close(self) -> None:
        self._connection.close()
        self._lock.close()


def newest(
    connection: sqlite3.Connection,
    at: int,
    narrow: Mapping[str, str],
    after: Sequence[str] | None,
    bodies: bool,
) -> list[Row]:
    """A page of the newest rows at revision `at`, in the order of their keys, including deletes.

    Contains only keys that match the columns in `narrow` and sort after the key `after`. Without `bodies`,
    bodies are empty. An empty page is the end. Raises CompactedError.
    """
    leading = [
        column for position, column in enumerate(KEY) if all(name in narrow for name in KEY[: position + 1])
    ]
    # Only the columns that are not fixed are compared with `after`, so that SQLite can seek in the index.
    paged = KEY[len(leading) :]
    same = "".join(f"AND {column} = ? " for column in narrow)
    later = f"AND ({', '.join(paged)}) > ({', '.join('?' * len(paged))})" if after else ""
    row = _ROW if bodies else _ROW.replace("body", "x''")
    # CROSS JOIN keeps SQLite from reordering the loops: the page stays in the order of keys.
    query = f"""
    SELECT {row} FROM (
        SELECT max(id) AS newest FROM log WHERE id < ? {same} {later}
        GROUP BY {", ".join(KEY)} ORDER BY {", ".join(KEY)} LIMIT {ROWS_PER_PAGE}
    ) CROSS JOIN log ON id = newest
    """
    values = (first_id(at + 1), *narrow.values(), *(after[len(leading) :] if after else ()))
    with _reading(connection, at):
        return _page(connection.execute(query, values))


def history(connection: sqlite3.Connection, after: int, upto: int, bodies: bool) -> list[Row]:
    """The first rows of the revisions in (after, upto], as whole transactions. Without `bodies`, bodies are empty.
    Raises CompactedError."""
    row = _ROW if bodies else _ROW.replace("body", "x''")
    query = f"SELECT {row} FROM log WHERE id >= ? AND id < ? ORDER BY id"
    with _reading(connection, after):
        cursor = connection.execute(query, (first_id(after + 1), first_id(upto + 1)))
        page = _page(cursor)
        # The page may end inside a transaction: take the rest of it.
        for found in cursor:
            if revision_of(found[0]) != revision_of(page[-1][0]):
                break
            page.append(found)
        cursor.close()
        return page


def _page(cursor: sqlite3.Cursor) -> list[Row]:
    page: list[Row] = []
    size = 0
    for row in cursor:
        page.append(row)
        size += len(row[-1])
        if len(page) == ROWS_PER_PAGE or size >= BODY_BYTES_PER_PAGE:
            break
    return page


def _meta(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()[0])


@contextmanager
def _reading(connection: sqlite3.Connection, at_least: int) -> Iterator[None]:
    """A read transaction. Raises CompactedError if revision `at_least` is compacted."""
    with _transaction(connection, "DEFERRED"):
        compacted = _meta(connection, "compacted")
        if at_least < compacted:
            raise CompactedError(compacted)
        yield


@contextmanager
def _transaction(connection: sqlite3.Connection, mode: str) -> Iterator[None]:
    connection.execute(f"BEGIN {mode}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # Some errors, such as a full disk, have already rolled back.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@cache
def _insert(rows: int) -> str:
    row = f"({', '.join('?' * WIDTH)})"
    return f"INSERT INTO log VALUES {', '.join([row] * rows)}"


def _lock(path: str, seconds_max: float) -> IO[str]:
    """Take the lock. Waits up to `seconds_max`, since the worker of a server that was just killed finishes
    its commit.

    Raises UnusableFile.
    """
    try:
        lock = open(f"{path}.lock", "w", opener=_open_private)  # noqa: SIM115
    except OSError as error:
        raise UnusableFile(f"{path}: {error.strerror}") from error
    deadline = monotonic() + seconds_max
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except OSError as error:
            if monotonic() >= deadline:
                lock.close()
                raise UnusableFile(f"{path} is in use by another process") from error
            sleep(LOCK_RETRY_SECONDS)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _make_private(path: str) -> None:
    """Create the file readable only by its owner: it holds every tenant's secrets. WAL files inherit its
    mode."""
    try:
        os.close(_open_private(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC))
    except OSError as error:
        raise UnusableFile(f"{path}: {error.strerror}") from error


def _sync_directory(directory: str) -> None:
    """Make the directory entries of new files durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_format(connection: sqlite3.Connection, path: str) -> None:
    queries = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_schema")
    application, form, tables = (connection.execute(query).fetchone()[0] for query in queries)
    if tables == 0 and application == 0:
        header = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT};"
        connection.executescript(f"BEGIN; {header} {SCHEMA} COMMIT;")
        return
    if application != APPLICATION_ID:
        raise UnusableFile(f"{path} is not an Alcove database")
    if form > FORMAT:
        raise UnusableFile(
            f"{path} has format {form}, but this version reads up to {FORMAT}: use a newer one"
        )
    damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if damage != "ok":
        raise UnusableFile(f"{path} is damaged: {damage}")
