"""The DNS server of a node: the sockets of all networks on one event loop.

Callers pass sockets that were opened in the networks' namespaces; the socket of a query determines its
network. At most DATAGRAMS_PER_TURN datagrams of a socket are handled per iteration of the loop, and none after
TURN_SECONDS, so that a flood in one network does not delay the others for long.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Coroutine, Iterable
from time import perf_counter
from typing import Any

from msgspec import Struct

from alcove.component.tasks import TaskSet
from alcove.dns.model import NetworkId
from alcove.dns.network_resolver import Counters, NetworkResolver, PendingQuery
from alcove.dns.question import is_truncated
from alcove.dns.tcp import TURN_SECONDS, ConnectionLimit, DnsTcpConnection
from alcove.dns.upstream import Upstream
from alcove.dns.zone import DnsZone

DATAGRAM_BYTES_MAX = 4_096
DATAGRAMS_PER_TURN = 16
LISTEN_BACKLOG = 64

log = logging.getLogger(__name__)


class DnsSockets(Struct, frozen=True):
    """Bound sockets, not yet listening. UDP sockets must be bound to an address, which is the source of the
    replies."""

    udp: tuple[socket.socket, ...]
    tcp: tuple[socket.socket, ...]


def bind(addresses: Iterable[str], port: int = 53) -> DnsSockets:
    """Binds sockets in the calling thread's network namespace. Raises OSError."""
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


class _ServedNetwork(Struct):
    network: NetworkResolver
    sockets: DnsSockets
    limit: ConnectionLimit
    listeners: list[asyncio.Server]


class DnsServer:
    """An async context manager: leaving it closes all sockets and cancels pending queries."""

    def __init__(self, upstream: Upstream | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._upstream = upstream
        self._clock = clock
        self._served: dict[NetworkId, _ServedNetwork] = {}
        self._tasks = TaskSet()

    async def __aenter__(self) -> "DnsServer":
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *_: object) -> None:
        for network in list(self._served):
            self.stop(network)
        await self._tasks.close()

    async def serve(self, zone: DnsZone, sockets: DnsSockets, *, way_out: bool) -> None:
        """Starts to serve the zone's network. The server owns the sockets, and closes them immediately if
        this fails. `way_out`: the network has egress, so other names are forwarded upstream."""
        network = NetworkResolver(zone, self._upstream if way_out else None, self._clock)
        served = _ServedNetwork(network, sockets, ConnectionLimit(), [])
        self.stop(zone.network)
        self._served[zone.network] = served
        try:
            for sock in sockets.udp:
                sock.setblocking(False)
                self._loop.add_reader(sock, self._on_readable(sock, network))
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
        """Stops serving the network. Idempotent."""
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

    async def ask(self, network: NetworkId, packet: bytes) -> bytes | None:
        """The reply that a pod of the network gets for this query: by UDP, or, if it is too long for that, by TCP. None if
        there is none, or the network is not served. Nothing is sent, except upstream."""
        served = self._served.get(network)
        if served is None:
            return None
        resolver = served.network
        reply = await self._answered(resolver, resolver.hot(packet) or resolver.datagram(packet))
        if reply is not None and is_truncated(reply):
            return await self._answered(resolver, resolver.message(packet))
        return reply

    async def _answered(self, network: NetworkResolver, reply: bytes | PendingQuery | None) -> bytes | None:
        return await network.finish(reply) if isinstance(reply, PendingQuery) else reply

    def networks(self) -> tuple[NetworkId, ...]:
        return tuple(self._served)

    def counters(self, network: NetworkId) -> Counters:
        return self._served[network].network.counters

    def _on_readable(self, sock: socket.socket, network: NetworkResolver) -> Callable[[], None]:
        """The callback for a readable socket; a closure, because this is the hot path."""
        receive, send, hot = sock.recvfrom, sock.sendto, network.hot

        def readable() -> None:
            end = perf_counter() + TURN_SECONDS
            for _ in range(DATAGRAMS_PER_TURN):
                try:
                    packet, peer = receive(DATAGRAM_BYTES_MAX)
                except (BlockingIOError, InterruptedError):
                    return
                except OSError as error:
                    log.warning("failed to read DNS socket", extra={"error": str(error)})
                    return
                reply = hot(packet) or self._resolve(sock, network, packet, peer)
                if reply is not None:
                    try:
                        send(reply, peer)
                    except OSError:
                        network.counters.unsent += 1
                if perf_counter() > end:
                    return  # Others first: the loop calls again.

        return readable

    def _resolve(
        self, sock: socket.socket, network: NetworkResolver, packet: bytes, peer: Any
    ) -> bytes | None:
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
        except OSError:  # Also if the network was stopped meanwhile, so that its socket is closed.
            network.counters.unsent += 1

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.spawn("DNS query", work)
