"""The DNS server of a node: sockets of every network on one event loop.

Sockets are handed in, opened in whatever namespace; the one a question comes in by tells the network.
A socket that is never empty gets a few datagrams per turn of the loop, so that no network's flood keeps
another network waiting for long.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from msgspec import Struct

from alcove.component.tasks import TaskSet
from alcove.dns.model import NetworkId
from alcove.dns.network_resolver import Counters, NetworkResolver, PendingQuery
from alcove.dns.tcp import ConnectionLimit, DnsTcpConnection
from alcove.dns.upstream import Upstream
from alcove.dns.zone import DnsZone

DATAGRAM_BYTES_MAX = 4_096
DATAGRAMS_PER_TURN = 16
LISTEN_BACKLOG = 64

log = logging.getLogger(__name__)


class DnsSockets(Struct, frozen=True):
    """Bound, not yet listening. UDP ones to an address, not to "any": replies must come from it."""

    udp: tuple[socket.socket, ...]
    tcp: tuple[socket.socket, ...]


def bind(addresses: Iterable[str], port: int = 53) -> DnsSockets:
    """Sockets in the calling thread's network namespace."""
    bound: dict[int, list[socket.socket]] = {socket.SOCK_DGRAM: [], socket.SOCK_STREAM: []}
    try:
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            for kind, sockets in bound.items():
                sock = socket.socket(family, kind | socket.SOCK_NONBLOCK)
                sockets.append(sock)
                if kind == socket.SOCK_STREAM:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind((address, port))
    except BaseException:
        for sock in (*bound[socket.SOCK_DGRAM], *bound[socket.SOCK_STREAM]):
            sock.close()
        raise
    return DnsSockets(tuple(bound[socket.SOCK_DGRAM]), tuple(bound[socket.SOCK_STREAM]))


class _Served(Struct):
    network: NetworkResolver
    sockets: DnsSockets
    limit: ConnectionLimit
    listeners: list[asyncio.Server]


class DnsServer:
    """Use as `async with`: leaving closes every socket and ends what is on its way."""

    def __init__(self, upstream: Upstream | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._upstream = upstream
        self._clock = clock
        self._served: dict[NetworkId, _Served] = {}
        self._tasks = TaskSet()

    async def __aenter__(self) -> "DnsServer":
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *_: object) -> None:
        for network in list(self._served):
            self.stop(network)
        await self._tasks.close()

    async def serve(self, zone: DnsZone, sockets: DnsSockets, *, way_out: bool) -> None:
        """Answers for the zone's network from now on. The sockets are the server's to close, at once if this fails."""
        network = NetworkResolver(zone, self._upstream if way_out else None, self._clock)
        served = _Served(network, sockets, ConnectionLimit(), [])
        self.stop(zone.network)
        self._served[zone.network] = served
        try:
            for sock in sockets.udp:
                sock.setblocking(False)
                self._loop.add_reader(sock, self._datagrams(sock, network))
            for sock in sockets.tcp:
                listener = await self._loop.create_server(
                    lambda: DnsTcpConnection(network, served.limit, self._spawn),
                    sock=sock,
                    backlog=LISTEN_BACKLOG,
                )
                served.listeners.append(listener)
        except BaseException:
            self.stop(zone.network)
            raise

    def set_egress(self, network: NetworkId, way_out: bool) -> None:
        self._served[network].network.set_upstream(self._upstream if way_out else None)

    def stop(self, network: NetworkId) -> None:
        """Idempotent."""
        served = self._served.pop(network, None)
        if served is None:
            return
        for sock in served.sockets.udp:
            self._loop.remove_reader(sock)
            sock.close()
        for listener in served.listeners:
            listener.close()
        for sock in served.sockets.tcp:
            sock.close()
        served.limit.close_all()

    def networks(self) -> tuple[NetworkId, ...]:
        return tuple(self._served)

    def counters(self, network: NetworkId) -> Counters:
        return self._served[network].network.counters

    def _datagrams(self, sock: socket.socket, network: NetworkResolver) -> Callable[[], None]:
        """What to do when datagrams wait; a closure, because everything here counts."""
        receive, send, hot = sock.recvfrom, sock.sendto, network.hot

        def readable() -> None:
            for _ in range(DATAGRAMS_PER_TURN):
                try:
                    packet, peer = receive(DATAGRAM_BYTES_MAX)
                except (BlockingIOError, InterruptedError):
                    return
                except OSError as error:
                    log.warning("DNS socket refused to be read", extra={"error": str(error)})
                    return
                reply = hot(packet) or self._cold(sock, network, packet, peer)
                if reply is not None:
                    try:
                        send(reply, peer)
                    except OSError:
                        network.counters.unsent += 1

        return readable

    def _cold(self, sock: socket.socket, network: NetworkResolver, packet: bytes, peer: Any) -> bytes | None:
        reply = network.datagram(packet)
        if isinstance(reply, PendingQuery):
            self._spawn(self._finish(sock, network, reply, peer))
            return None
        return reply

    async def _finish(
        self, sock: socket.socket, network: NetworkResolver, pending: PendingQuery, peer: Any
    ) -> None:
        reply = await network.finish(pending)
        try:
            sock.sendto(reply, peer)
        except OSError:  # Also when the network was stopped meanwhile, and its socket closed.
            network.counters.unsent += 1

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.spawn("DNS query", work)
