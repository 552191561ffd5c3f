"""Node ports and host ports for processes on the node itself: their packets do not pass the underlay device,
where the data plane handles them. So a socket on the node listens on each port and relays to the service, or to
the pod, from its network's gateway. This is TCP; `local_datagrams` is UDP.

The sockets also prevent other processes on the node from binding these ports.
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
    """Where a port of the node leads."""

    vni: int
    address: str
    port: int
    source: str = ""
    """The gateway's address to connect from; empty for the one that it has for external clients."""


Dial = Callable[[LocalService], Awaitable[socket.socket]]
"""A connected socket of the service's network. Raises OSError."""


class LocalNodePorts:
    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._open: dict[Step, tuple[LocalService, asyncio.Server]] = {}
        self._connections = 0

    async def set(self, desired: Mapping[Step, LocalService]) -> None:
        """Listens on exactly these ports from now on. A port that another process has bound is skipped with a
        warning."""
        for address in [each for each, (service, _) in self._open.items() if desired.get(each) != service]:
            self._open.pop(address)[1].close()
        for address, service in desired.items():
            if address not in self._open:
                try:
                    server = await asyncio.start_server(
                        partial(self._relay, service), *address, reuse_address=True
                    )
                except OSError as error:
                    log.warning(
                        "failed to listen on TCP port of the node",
                        extra={"port": address[1], "error": str(error)},
                    )
                    continue
                self._open[address] = (service, server)

    def steps(self) -> frozenset[Step]:
        return frozenset(self._open)

    def close(self) -> None:
        for _, server in self._open.values():
            server.close()
        self._open.clear()

    async def _relay(
        self, service: LocalService, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if self._connections >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        self._connections += 1
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                sock = await self._dial(service)
            service_reader, service_writer = await asyncio.open_connection(sock=sock)
            try:
                await asyncio.gather(_pump(reader, service_writer), _pump(service_reader, writer))
            finally:
                service_writer.close()
        except (OSError, TimeoutError):
            writer.transport.abort()
        finally:
            self._connections -= 1
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Relays one direction until its end; the other may continue."""
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
