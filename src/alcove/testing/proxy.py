"""A bad network between a process and its API server: connections that break, bytes that take their time.

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
from types import TracebackType

PIECE_BYTES = 16 * 1024


class BadNetwork:
    """Runs in a thread of its own; passes bytes as they are, and knows nothing of what they mean."""

    def __init__(self, address: tuple[str, int], seed: int = 0) -> None:
        self._address = address
        self._chance = random.Random(seed)
        self._writers: set[asyncio.StreamWriter] = set()
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self.port = 0
        self.is_rough = False
        self.break_chance = 0.005
        self.delay_chance = 0.05
        self.delay_seconds_max = 0.2

    def __enter__(self) -> BadNetwork:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None and self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def cut(self) -> None:
        """Breaks every open connection."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._cut)

    def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        self._cut()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
            while data := await reader.read(PIECE_BYTES):
                if self.is_rough:
                    if self._chance.random() < self.break_chance:
                        break
                    if self._chance.random() < self.delay_chance:
                        await asyncio.sleep(self._chance.random() * self.delay_seconds_max)
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
