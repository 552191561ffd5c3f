"""The process that owns the embedded store's file. One thread writes, one reads.

Why a process: a thread needs the GIL before and after each commit, and starves beside a busy event loop
(measured with 16 writers: 7 writes/s, against 8,000 and more with a process). A process replies on a socket,
which the loop polls anyway. It imports only the standard library, so that it starts in 15 ms and needs 11 MB.

It exits when its sockets are closed, however the server ended, after finishing the current commit.

A request is `(name, *arguments)`, a reply `(result,)` or `(kind, text, detail)`; both are encoded by
`marshal` with a length prefix, since both ends run the same interpreter.
"""

import marshal
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable, Mapping
from threading import Thread
from typing import Any

from alcove.store.sqlite_file import CompactedError, SqliteFile, UnusableFile, history, newest

HEADER_BYTES = 4

UNUSABLE, GONE, STORAGE, VALUE = "unusable", "gone", "storage", "value"
"""Kinds of error replies: the file cannot be opened; compacted (detail: the compacted revision); the file or
the disk failed (detail: SQLite's error code); the value cannot be stored."""

Handlers = Mapping[str, Callable[..., Any]]


def main() -> None:
    """Serve the two sockets whose descriptors are the last arguments: writes, reads."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    writes, reads = (socket.socket(fileno=int(fd)) for fd in sys.argv[-2:])
    handlers: dict[str, Callable[..., Any]] = {}

    def open_file(path: str, bytes_max: int | None, lock_seconds_max: float) -> tuple[int, int]:
        file = SqliteFile(path, bytes_max, lock_seconds_max)
        reader = Thread(target=_read, args=(reads, file.connect()), daemon=True)
        reader.start()
        handlers.update(append=file.append, compact_to=file.compact_to, sweep=file.sweep)
        closing.extend((reader.join, file.close))
        return file.revision(), file.compacted()

    closing: list[Callable[[], None]] = []
    handlers["open"] = open_file
    serve(writes, handlers)
    for close in closing:
        close()


def _read(channel: socket.socket, connection: sqlite3.Connection) -> None:
    def bound(query: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: query(connection, *arguments)

    serve(channel, {"newest": bound(newest), "history": bound(history)})
    connection.close()


def serve(channel: socket.socket, handlers: Handlers) -> None:
    """Reply to requests, one by one, until the channel is closed."""
    while (request := _receive(channel)) is not None:
        name, *arguments = request
        reply = marshal.dumps(_answer(handlers[name], arguments))
        try:
            channel.sendall(len(reply).to_bytes(HEADER_BYTES, "big") + reply)
        except OSError:
            return


def _answer(handler: Callable[..., Any], arguments: list[Any]) -> tuple[Any, ...]:
    try:
        return (handler(*arguments),)
    except UnusableFile as error:
        return UNUSABLE, str(error), 0
    except CompactedError as error:
        return GONE, str(error), error.revision
    except (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.ProgrammingError) as error:
        return VALUE, str(error), 0
    except (sqlite3.Error, MemoryError, OSError) as error:
        return STORAGE, str(error), getattr(error, "sqlite_errorcode", 0)
    except (ValueError, TypeError, OverflowError) as error:
        return VALUE, str(error), 0


def _receive(channel: socket.socket) -> Any:
    header = _exactly(channel, HEADER_BYTES)
    body = header and _exactly(channel, int.from_bytes(header, "big"))
    return marshal.loads(body) if body else None


def _exactly(channel: socket.socket, count: int) -> bytearray | None:
    """`count` bytes, or None if the channel is closed."""
    read = bytearray(count)
    view = memoryview(read)
    while view:
        try:
            got = channel.recv_into(view)
        except OSError:
            return None
        if not got:
            return None
        view = view[got:]
    return read
