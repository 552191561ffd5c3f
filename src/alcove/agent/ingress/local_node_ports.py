"""The node's own programs reach its node ports, too: what they open never comes by the underlay device, where doors
are, so they find a socket here, and are joined to the service from its network's gateway. TCP only.

The sockets also keep others on the node from taking a port that leads elsewhere.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from msgspec import Struct

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 1_024
CONNECT_SECONDS_MAX = 5.0
IDLE_SECONDS_MAX = 3_600.0
READ_BYTES = 64 << 10

Step = tuple[str, int]
"""An address and port of the node."""


class LocalService(Struct, frozen=True):
    vni: int
    address: str
    port: int


Dial = Callable[[int, str, int], Awaitable[socket.socket]]
"""(vni, address, port) → a connected socket of that network. Raises OSError."""


class LocalNodePorts:
    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._open: dict[Step, tuple[LocalService, asyncio.Server]] = {}
        self._connections = 0

    async def set(self, wanted: Mapping[Step, LocalService]) -> None:
        """These lead to services from now on, and no others. A port that somebody has is left to him."""
        for step in [each for each, (service, _) in self._open.items() if wanted.get(each) != service]:
            self._open.pop(step)[1].close()
        for step, service in wanted.items():
            if step not in self._open:
                try:
                    server = await asyncio.start_server(
                        partial(self._join, service), *step, reuse_address=True
                    )
                except OSError as error:
                    log.warning(
                        "node port not served to the node itself",
                        extra={"port": step[1], "error": str(error)},
                    )
                    continue
                self._open[step] = (service, server)

    def steps(self) -> frozenset[Step]:
        return frozenset(self._open)

    def close(self) -> None:
        for _, server in self._open.values():
            server.close()
        self._open.clear()

    async def _join(
        self, service: LocalService, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if self._connections >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        self._connections += 1
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                sock = await self._dial(service.vni, service.address, service.port)
            far_reader, far_writer = await asyncio.open_connection(sock=sock)
            try:
                await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
            finally:
                far_writer.close()
        except (OSError, TimeoutError):
            writer.transport.abort()
        finally:
            self._connections -= 1
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One direction, to its end; the other may go on."""
    while True:
        async with asyncio.timeout(IDLE_SECONDS_MAX):
            data = await reader.read(READ_BYTES)
        if not data:
            break
        writer.write(data)
        async with asyncio.timeout(IDLE_SECONDS_MAX):
            await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
