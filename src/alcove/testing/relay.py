"""TCP relays between a process and its API servers: a load balancer, and a faulty network.

with Balancer([first.address, second.address]) as balancer:
    start(kubeconfig_for(balancer.port))

with BadNetwork(server.address) as network:
    start(kubeconfig_for(network.port))
    network.cut()                     # everything that is open breaks
    network.is_rough = True           # from now on at random
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

Address = tuple[str, int]
PIECE_BYTES = 64 << 10
ROUGH_PIECE_BYTES = 16 << 10


class TcpRelay:
    """A listener on loopback with a custom connection handler. Runs in its own thread for the duration of the
    block; `port` is its port."""

    def __init__(self) -> None:
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self.port = 0

    def __enter__(self) -> Self:
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
        server = await asyncio.start_server(self.accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        self.end()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handles one connection until it is closed."""
        raise NotImplementedError

    def end(self) -> None:
        """Called when no more connections are accepted."""


class Balancer(TcpRelay):
    """Round-robin over the servers that accept connections. Each connection goes to one server, and is closed
    when either side closes it."""

    def __init__(self, servers: Sequence[Address]) -> None:
        super().__init__()
        self._servers = list(servers)
        self._next = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            connection = await self._connect()
            if connection is not None:
                to_reader, to_writer = connection
                await asyncio.gather(_forward(reader, to_writer), _forward(to_reader, writer))
        finally:
            writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for _ in self._servers:
            address = self._servers[self._next]
            self._next = (self._next + 1) % len(self._servers)
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(*address)
        return None


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(PIECE_BYTES):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


class BadNetwork(TcpRelay):
    """Forwards bytes unchanged, without parsing them; breaks connections and delays bytes."""

    def __init__(self, address: Address, seed: int = 0) -> None:
        super().__init__()
        self._address = address
        self._chance = random.Random(seed)
        self._writers: set[asyncio.StreamWriter] = set()
        self.is_rough = False
        self.break_chance = 0.005
        self.delay_chance = 0.05
        self.delay_seconds_max = 0.2

    def cut(self) -> None:
        """Breaks every open connection."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self.end)

    def end(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_reader, to_writer = await asyncio.open_connection(*self._address)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, to_writer}
        self._writers |= pair
        try:
            await asyncio.gather(self._pass(reader, to_writer), self._pass(to_reader, writer))
        finally:
            self._writers -= pair
            for each in pair:
                each.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(ROUGH_PIECE_BYTES):
                if self.is_rough:
                    if self._chance.random() < self.break_chance:
                        break
                    if self._chance.random() < self.delay_chance:
                        await asyncio.sleep(self._chance.random() * self.delay_seconds_max)
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
