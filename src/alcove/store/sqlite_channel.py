"""The server's end of the sockets to the worker process that owns the file (`sqlite_worker`).

Requests are answered in order. A reply's callback is called in the same loop iteration that reads the reply,
without threads, locks or polling.
"""

import asyncio
import marshal
import socket
import subprocess
import sys
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from alcove.api.ids import Revision
from alcove.store import sqlite_worker as worker
from alcove.store.base import Compacted, StoreOpenError, StoreUnavailable
from alcove.store.sqlite_worker import HEADER_BYTES

Done = Callable[[Any, Exception | None], None]
"""Called with the result, or with the error to raise instead."""

_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from alcove.store.sqlite_worker import main; main()"


class StorageFailed(StoreUnavailable):
    """The file or its disk failed; `code` is SQLite's."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class Channel(asyncio.Protocol):
    """One socket: requests out, replies in."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Done] = deque()
        self._unread = bytearray()
        self._ended: str | None = None
        self._transport: asyncio.WriteTransport

    def submit(self, done: Done, *request: Any) -> None:
        """Send a request. `done` is called with its reply on the loop, never before this returns."""
        if self._ended is not None:
            self._loop.call_soon(done, None, StorageFailed(self._ended, 0))
            return
        packed = marshal.dumps(request)
        self._waiting.append(done)
        self._transport.write(len(packed).to_bytes(HEADER_BYTES, "big") + packed)

    def call(self, *request: Any) -> "asyncio.Future[Any]":
        result: asyncio.Future[Any] = self._loop.create_future()

        def done(value: Any, error: Exception | None) -> None:
            if result.done():
                return
            if error is None:
                result.set_result(value)
            else:
                result.set_exception(error)

        self.submit(done, *request)
        return result

    def close(self) -> None:
        self._ended = "the store is closed"
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while len(self._unread) >= HEADER_BYTES:
            end = HEADER_BYTES + int.from_bytes(self._unread[:HEADER_BYTES], "big")
            if len(self._unread) < end:
                return
            with memoryview(self._unread) as view:
                reply = marshal.loads(view[HEADER_BYTES:end])
            del self._unread[:end]
            done = self._waiting.popleft()
            if len(reply) == 1:
                done(reply[0], None)
            else:
                done(None, _error(*reply))

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = self._ended or "the store's worker process has exited"
        while self._waiting:
            self._waiting.popleft()(None, StorageFailed(self._ended, 0))


class WorkerProcess:
    """The running worker and the channels to it."""

    def __init__(self, running: "subprocess.Popen[bytes]", writes: Channel, reads: Channel) -> None:
        self.writes = writes
        self.reads = reads
        self.pid = running.pid
        self._running = running

    @classmethod
    async def start(cls) -> "WorkerProcess":
        loop = asyncio.get_running_loop()
        ours, theirs = zip(socket.socketpair(), socket.socketpair(), strict=True)
        running = await asyncio.to_thread(_spawn, [end.fileno() for end in theirs])
        for end in theirs:
            end.close()
        channels = [Channel(loop), Channel(loop)]
        for channel, end in zip(channels, ours, strict=True):
            end.setblocking(False)
            await loop.create_connection(partial(_same, channel), sock=end)
        return cls(running, *channels)

    async def stop(self) -> None:
        """Stop the process after it has finished its pending requests."""
        self.writes.close()
        self.reads.close()
        await asyncio.to_thread(self._running.wait)


def _same(channel: Channel) -> Channel:
    return channel


def _spawn(fds: Sequence[int]) -> "subprocess.Popen[bytes]":
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-I", "-S", "-c", _BOOT, root, *map(str, fds)]
    # A new session: signals of the server's terminal must not reach the worker.
    return subprocess.Popen(command, pass_fds=fds, stdin=subprocess.DEVNULL, start_new_session=True)


def _error(kind: str, text: str, detail: int) -> Exception:
    match kind:
        case worker.UNUSABLE:
            return StoreOpenError(text)
        case worker.GONE:
            return Compacted(Revision(detail))
        case worker.STORAGE:
            return StorageFailed(text, detail)
        case _:
            return ValueError(text)
