"""The process that owns the embedded store's file. One thread writes, one reads.

Why a process: a thread would need the interpreter's lock before and after each commit, and beside a
busy event loop it starves (measured with 16 writers: 7 writes/s, this way 8,000 and more beside the
same loop). A process answers on a socket, which the loop polls anyway. It imports only the standard library: 15 ms to start, 11 MB.

It ends when its sockets do, however the server died, having finished the commit it was at.

A request is `(name, *arguments)`, a reply `(result,)` or `(kind, text, detail)`; both as a length and
a `marshal` of it: the same interpreter is at both ends.
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
"""Kinds of error replies: cannot open; compacted (detail: up to where); the file or the disk failed
(detail: SQLite's error code); what was to be written cannot be."""

Handlers = Mapping[str, Callable[..., Any]]


def main() -> None:
    """Serves the two sockets whose descriptors are the last arguments: writes, reads."""
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
    """Answers requests, one by one, until the channel ends."""
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
    """`count` bytes, or None where the channel ends."""
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
