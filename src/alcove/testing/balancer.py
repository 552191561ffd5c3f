"""A load balancer as operators put before API servers: TCP, the next server that answers, nothing else known.

with Balancer([first.address, second.address]) as balancer:
    start(kubeconfig_for(balancer.port))
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from types import TracebackType

Address = tuple[str, int]
PIECE_BYTES = 64 << 10


class Balancer:
    """Runs in a thread of its own. A connection goes to one server, and ends when either side does."""

    def __init__(self, servers: Sequence[Address]) -> None:
        self._servers = list(servers)
        self._next = 0
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self.port = 0

    def __enter__(self) -> Balancer:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None and self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            found = await self._reach()
            if found is not None:
                to_reader, to_writer = found
                await asyncio.gather(_pass(reader, to_writer), _pass(to_reader, writer))
        finally:
            writer.transport.abort()

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for _ in self._servers:
            address = self._servers[self._next]
            self._next = (self._next + 1) % len(self._servers)
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(*address)
        return None


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(PIECE_BYTES):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()
