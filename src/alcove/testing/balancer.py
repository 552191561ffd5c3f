"""A TCP load balancer for API servers: round-robin over the servers that accept connections.

with Balancer([first.address, second.address]) as balancer:
    start(kubeconfig_for(balancer.port))
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from alcove.testing.relay import TcpRelay

Address = tuple[str, int]
PIECE_BYTES = 64 << 10


class Balancer(TcpRelay):
    """Each connection goes to one server, and is closed when either side closes it."""

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
