"""The ingress server: accepts connections, finds the target of each request, and enforces the limits.

It runs on an event loop of its own (`start.py`), so that handshakes do not delay the agent's DNS and probes. What
other threads change, `table` and the certificates, is replaced as a whole.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Iterable
from functools import partial
from urllib.parse import urlsplit

from alcove.agent.ingress import headers
from alcove.agent.ingress.exchange import HttpExchange, IngressError, UpstreamBroken
from alcove.agent.ingress.headers import ForwardedClient
from alcove.agent.ingress.limits import IngressLimits
from alcove.agent.ingress.routing_table import IngressTarget, RoutingTable
from alcove.agent.ingress.traffic import IngressTraffic
from alcove.agent.ingress.upstream import Dial, Upstreams
from alcove.client.keys import TenantKey
from alcove.component.tasks import BackgroundTasks, TaskSet
from alcove.http.connections import ConnectionSlot, ConnectionTable
from alcove.http.errors import HttpError, MalformedMessage
from alcove.http.messages import HttpHead
from alcove.http.streams import HttpStream
from alcove.network.ingress.domains import DomainGrants

log = logging.getLogger(__name__)

ACCEPT_RETRY_SECONDS = 1.0


class IngressServer:
    def __init__(
        self, dial: Dial, limits: IngressLimits | None = None, traffic: IngressTraffic | None = None
    ) -> None:
        """`traffic` counts what is relayed, by tenant."""
        self.table = RoutingTable(DomainGrants())
        """Replaced on every change; requests in progress are not affected."""
        self.limits = limits or IngressLimits()
        self._upstreams = Upstreams(dial, self.limits, traffic or IngressTraffic())
        self._serving = TaskSet()
        """One task for each connection."""
        self._clients: dict[str, _Client] = {}
        self._connections = ConnectionTable(self.limits)
        """By client address until a request names a host, then by the host's tenant."""
        self._active_requests: Counter[TenantKey] = Counter()

    async def run(
        self, plain: Iterable[socket.socket], secure: Iterable[socket.socket], tls: ssl.SSLContext
    ) -> None:
        """Serves these bound sockets until cancelled, then closes them."""
        listening = [*((sock, None) for sock in plain), *((sock, tls) for sock in secure)]
        try:
            async with BackgroundTasks() as tasks:
                for sock, context in listening:
                    sock.setblocking(False)
                    tasks.fatal("ingress listener", self._accept(sock, context))
                await asyncio.Event().wait()
        finally:
            for sock, _ in listening:
                sock.close()
            await self._serving.close()
            self._upstreams.close()

    async def _accept(self, listening: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Connections are counted from here on, not only after the handshake as asyncio's servers would."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, (address, *_) = await loop.sock_accept(listening)
            except OSError as error:
                log.warning("failed to accept connection; retrying", extra={"error": str(error)})
                await asyncio.sleep(ACCEPT_RETRY_SECONDS)
                continue
            client = self._clients.get(address)
            if client is not None and client.connections >= self.limits.connections_per_client_max:
                sock.close()
                continue
            slot = self._connections.open(address, loop.time())
            if slot is None:
                sock.close()
                continue
            if client is None:
                client = self._clients[address] = _Client(self.limits)
            client.connections += 1
            task = self._serving.spawn("ingress connection", self._serve(sock, slot, client, tls))
            slot.close = partial(_cancel, task)
            task.add_done_callback(partial(self._forget, slot, client))

    def _forget(self, slot: ConnectionSlot, client: _Client, _task: object) -> None:
        self._connections.closed(slot)
        client.connections -= 1
        if not client.connections:
            del self._clients[slot.address]

    async def _serve(
        self, sock: socket.socket, slot: ConnectionSlot, client: _Client, tls: ssl.SSLContext | None
    ) -> None:
        writer = None
        try:
            async with asyncio.timeout(self.limits.handshake_seconds_max), client.handshakes:
                reader, writer = await self._open(sock, tls)
        except (OSError, ssl.SSLError, TimeoutError):
            return
        finally:
            if writer is None:
                sock.close()
        try:
            stream = HttpStream(reader, writer, self.limits, requests=True)
            await _ClientConnection(self, stream, slot, _client(writer, slot.address)).run()
        except (OSError, ssl.SSLError, TimeoutError, UpstreamBroken):
            writer.transport.abort()
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        finally:
            writer.close()

    async def _open(
        self, sock: socket.socket, tls: ssl.SSLContext | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The streams of an accepted connection, after its TLS handshake."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        timeouts = (
            {
                "ssl_handshake_timeout": self.limits.handshake_seconds_max,
                "ssl_shutdown_timeout": self.limits.linger_seconds_max,
            }
            if tls is not None
            else {}
        )
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, ssl=tls, **timeouts)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def enter(self, slot: ConnectionSlot, target: IngressTarget) -> None:
        """Counts the request and its connection for the tenant. Raises IngressError if it has too many."""
        if not slot.claim(f"{target.tenant_key.plane}/{target.tenant_key.tenant}"):
            raise IngressError(503, "too many open connections")
        if self._active_requests[target.tenant_key] >= self.limits.requests_per_tenant_max:
            raise IngressError(503, "too many concurrent requests")
        self._active_requests[target.tenant_key] += 1

    def leave(self, target: IngressTarget) -> None:
        self._active_requests[target.tenant_key] -= 1
        if not self._active_requests[target.tenant_key]:
            del self._active_requests[target.tenant_key]

    def exchange(self, stream: HttpStream, target: IngressTarget) -> HttpExchange:
        return HttpExchange(stream, self.limits, self._upstreams)


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


def _client(writer: asyncio.StreamWriter, address: str) -> ForwardedClient:
    tls: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
    local_address = writer.get_extra_info("sockname") or ("", 0)
    name = getattr(tls, "alcove_name", "") if tls is not None else ""
    return ForwardedClient(address, "https" if tls is not None else "http", local_address[1], name)


class _Client:
    """What the connections from one address have in common."""

    def __init__(self, limits: IngressLimits) -> None:
        self.connections = 0
        self.handshakes = asyncio.Semaphore(limits.handshakes_per_client_max)


class _ClientConnection:
    """The requests on one connection of a client, one after the other."""

    def __init__(
        self, server: IngressServer, stream: HttpStream, slot: ConnectionSlot, client: ForwardedClient
    ) -> None:
        self._server = server
        self._slot = slot
        self._limits = server.limits
        self._stream = stream
        self._writer = stream.writer
        self._client = client

    async def run(self) -> None:
        for _ in range(self._limits.requests_per_connection_max):
            try:
                head = await self._head()
            except HttpError as error:
                await self._refuse(IngressError(error.status, str(error)))
                return
            if head is None or not await self._handle(head):
                return

    async def _head(self) -> HttpHead | None:
        """The head of the next request; None if the client sends no more."""
        if not await self._stream.wait(self._limits.idle_seconds_max):
            return None
        # The timeout applies to the whole head, even if it arrives in small pieces.
        event = await self._stream.next(self._limits.head_seconds_max)
        if not isinstance(event, HttpHead):
            return None
        if event.method == b"CONNECT":
            raise MalformedMessage("CONNECT is not supported", 501)
        if event.upgrade and not headers.wants_websocket(event):
            # Other protocols are not supported: handle it as an ordinary request.
            self._stream.decline_upgrade()
            event.upgrade = False
        return event

    async def _handle(self, head: HttpHead) -> bool:
        """Handles the request; returns whether the connection can be reused."""
        try:
            host, path = requested_target(head, self._client)
            target = self._server.table.find(_name_of(host), path.partition(b"?")[0].decode("latin-1"))
            if target is None:
                raise IngressError(404)
            if not target.addresses:
                raise IngressError(503, f"no ready endpoints for service {target.description}")
            if (head.length or 0) > self._limits.body_bytes_max:
                raise IngressError(413)
            self._server.enter(self._slot, target)
            try:
                exchange = self._server.exchange(self._stream, target)
                is_reusable = await exchange.run(head, host, path, target, self._client)
                if not exchange.is_sent:
                    await self._stream.linger()
                return is_reusable
            finally:
                self._server.leave(target)
        except IngressError as error:
            await self._refuse(error, head)
            return False
        except HttpError as error:
            await self._refuse(IngressError(error.status), head)
            return False

    async def _refuse(self, error: IngressError, head: HttpHead | None = None) -> None:
        """`head` is None if the request could not be parsed."""
        is_head_request = head is not None and head.method == b"HEAD"
        self._writer.write(headers.refusal(error.status, str(error), has_body=not is_head_request))
        if head is None or head.has_body:
            await self._stream.linger()


def requested_target(head: HttpHead, client: ForwardedClient) -> tuple[str, bytes]:
    """The host, with its port if it has one, and the path with the query. Raises IngressError."""
    host, path = head.headers.get("host", ""), head.target
    if not path.startswith(b"/"):
        if path == b"*" and head.method == b"OPTIONS":
            return host, b"/"
        try:
            split = urlsplit(path.decode("ascii"))
        except ValueError:
            raise IngressError(400, "malformed request target") from None
        if split.scheme not in ("http", "https") or not split.netloc:
            raise IngressError(400, "malformed request target")
        host = split.netloc.rpartition("@")[2]
        path = (split.path or "/").encode() + (b"?" + split.query.encode() if split.query else b"")
    if client.name and _name_of(host) != client.name:
        # The connection was authenticated for another host, which may belong to another tenant.
        raise IngressError(421)
    return host, path


def _name_of(host: str) -> str:
    """The host name without port, in lower case."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].rstrip(".").lower()
