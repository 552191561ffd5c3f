import socket
import sqlite3
from threading import Thread

import pytest

from alcove.store.sqlite_file import CompactedError, UnusableFile
from alcove.store.sqlite_worker import GONE, STORAGE, UNUSABLE, VALUE, _answer, serve


def raises(error: Exception) -> object:
    raise error


@pytest.mark.parametrize(
    ("error", "reply"),
    [
        (UnusableFile("no file"), (UNUSABLE, "no file", 0)),
        (CompactedError(7), (GONE, "history begins after 7", 7)),
        (sqlite3.IntegrityError("no id"), (VALUE, "no id", 0)),
        (OverflowError("too large"), (VALUE, "too large", 0)),
        (sqlite3.OperationalError("disk I/O error"), (STORAGE, "disk I/O error", 0)),
        (MemoryError("none left"), (STORAGE, "none left", 0)),
    ],
)
def test_errors_say_whose_fault_they_are(error: Exception, reply: tuple[object, ...]) -> None:
    assert _answer(raises, [error]) == reply


def test_storage_errors_carry_the_code() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("PRAGMA max_page_count = 3")
    connection.execute("CREATE TABLE t (x)")
    kind, _, code = _answer(connection.execute, ["INSERT INTO t VALUES (zeroblob(100000))"])
    assert (kind, code) == (STORAGE, sqlite3.SQLITE_FULL)


def test_serving_ends_with_the_channel() -> None:
    ours, theirs = socket.socketpair()
    serving = Thread(target=serve, args=(theirs, {}))
    serving.start()
    ours.sendall(b"\x00\x00\x01\x00half a request")
    ours.close()
    serving.join(timeout=60)
    assert not serving.is_alive()
