"""A faulty network between a process and its API server: broken connections and delayed bytes.

with BadNetwork(server.address) as network:
    start(kubeconfig_for(network.port))
    network.cut()                     # everything that is open breaks
    network.is_rough = True           # from now on at random
"""

from __future__ import annotations

import asyncio
import contextlib
import random

from alcove.testing.relay import TcpRelay

PIECE_BYTES = 16 * 1024


class BadNetwork(TcpRelay):
    """Forwards bytes unchanged, without parsing them."""

    def __init__(self, address: tuple[str, int], seed: int = 0) -> None:
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
            while data := await reader.read(PIECE_BYTES):
                if self.is_rough:
                    if self._chance.random() < self.break_chance:
                        break
                    if self._chance.random() < self.delay_chance:
                        await asyncio.sleep(self._chance.random() * self.delay_seconds_max)
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
