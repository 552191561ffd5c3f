"""The network of a program that pulls an image for a tenant: a network namespace in which nothing can be
reached but a forward proxy of the agent.

The proxy checks every destination (`registry_dialer.py`): the registry, its token server, redirects and the
URLs of layers. Go programs do not use a proxy for loopback addresses; in the namespace those lead nowhere,
unless ring0 has named a registry on loopback, which then has a relay at the same address and port.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from types import TracebackType
from urllib.parse import urlsplit

from alcove.agent.images.registry_dialer import DestinationRefused, RegistryDialer, split_port, targets_of
from alcove.agent.relay import RelaySide
from alcove.api import destinations
from alcove.component.tasks import TaskSet
from alcove.dataplane import links, namespaces
from alcove.dataplane.errors import KernelRefused
from alcove.dataplane.netlink import Netlink
from alcove.http.errors import HttpError
from alcove.http.messages import Field, HttpHead
from alcove.http.streams import HttpServerStream, MessageMark
from alcove.http.writing import head, status_line

CONNECTIONS_PER_PULL_MAX = 64
"""Concurrent connections of one pull; further ones are refused, and the pull fails with that message."""
REQUEST_BYTES_MAX = 64 << 10
"""Size of the body of one unencrypted request of a pull: requests for tokens are small, the pull fails
otherwise."""
REQUEST_SECONDS_MAX = 10.0
"""Time between two parts of such a body."""
_LOOPBACK = "127.0.0.1"
_LOCALHOST = "localhost"
_HOP_BY_HOP = {b"connection", b"keep-alive", b"te", b"upgrade"}
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY")
_OTHER_VARIABLES = ("ALL_PROXY", "NO_PROXY")


class PullNetwork:
    """An async context manager. Leaving it closes all connections; the namespace ends with its last
    process."""

    def __init__(self, dialer: RegistryDialer, image: str) -> None:
        self._dialer = dialer
        self._registry = image.partition("/")[0]
        self._lookups = asyncio.Lock()
        self._tasks = TaskSet()
        self._sides: set[RelaySide] = set()
        self._servers: list[asyncio.Server] = []
        self._namespace = -1
        self._port = 0

    async def __aenter__(self) -> PullNetwork:
        """Raises KernelRefused, OSError."""
        self._namespace = await asyncio.to_thread(_make_namespace)
        try:
            proxy = self._listen(_LOOPBACK, 0)
            self._port = proxy.getsockname()[1]
            self._servers.append(await asyncio.start_server(self._on_client, sock=proxy))
            for host, port in self._loopback_targets():
                await self._relay_loopback(host, port)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.close()
        await self._tasks.close()
        for side in list(self._sides):
            if side.transport is not None:
                side.transport.abort()
        os.close(self._namespace)

    @property
    def command(self) -> tuple[str, ...]:
        """What to put before a command line, so that it runs in the namespace."""
        return ("nsenter", f"--net=/proc/{os.getpid()}/fd/{self._namespace}", "--")

    def environment(self) -> dict[str, str]:
        """The agent's environment with this proxy instead of any other."""
        excluded = {*_PROXY_VARIABLES, *_OTHER_VARIABLES}
        kept = {name: value for name, value in os.environ.items() if name.upper() not in excluded}
        url = f"http://{_LOOPBACK}:{self._port}"
        spellings = [spelling for name in _PROXY_VARIABLES for spelling in (name, name.lower())]
        return {**kept, **dict.fromkeys(spellings, url)}

    def _listen(self, address: str, port: int) -> socket.socket:
        with namespaces.inside(self._namespace):
            sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
            try:
                sock.bind((address, port))
            except BaseException:
                sock.close()
                raise
        return sock

    # Registries on loopback

    def _loopback_targets(self) -> list[tuple[str, int]]:
        host, _ = split_port(self._registry)
        address = destinations.parse(host)
        if host != _LOCALHOST and (address is None or not address.is_loopback):
            return []
        return [target for target in targets_of(self._registry) if self._dialer.is_named(*target)]

    async def _relay_loopback(self, host: str, port: int) -> None:
        def on_client(client: asyncio.Transport, near: RelaySide) -> None:
            self._tasks.spawn("registry relay", self._relay(client, near, host, port))

        for address in (_LOOPBACK, "::1") if host == _LOCALHOST else (host,):
            with suppress(OSError):  # The kernel may be without IPv6.
                listener = self._listen(address, port)
                loop = asyncio.get_running_loop()
                self._servers.append(
                    await loop.create_server(lambda: _RelayedClient(on_client), sock=listener)
                )

    async def _relay(self, client: asyncio.Transport, near: RelaySide, host: str, port: int) -> None:
        try:
            sock = await self._dialer.dial(host, port, self._lookups)
            await self._join(client, near, sock, b"", b"")
            client.resume_reading()
        except (DestinationRefused, OSError, TimeoutError):
            client.abort()

    # The proxy

    async def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = HttpServerStream(reader, writer)
        try:
            # Read even if it is refused: closing a connection with unread data resets it, and the message is lost.
            request = await client.request()
            if len(self._sides) // 2 >= CONNECTIONS_PER_PULL_MAX:
                await _refuse(writer, 503, "too many connections of one image pull")
                return
            if request.method == b"CONNECT":
                host, port = split_port(request.target.decode("latin-1"))
                await self._tunnel(writer, host, port, b"HTTP/1.1 200 OK\r\n\r\n")
            else:
                await self._forward(client, request)
        except DestinationRefused as error:
            await _refuse(writer, 403, str(error))
        except TimeoutError:
            await _refuse(writer, 504, "i/o timeout")
        except OSError as error:
            # The exception's text may contain an address.
            await _refuse(writer, 502, os.strerror(error.errno).lower() if error.errno else "not reachable")
        except (HttpError, EOFError, ValueError):
            await _refuse(writer, 400, "malformed request")

    async def _tunnel(self, writer: asyncio.StreamWriter, host: str, port: int, greeting: bytes) -> None:
        sock = await self._dialer.dial(host, port, self._lookups)
        # Until the end: asyncio closes a connection whose StreamWriter is no longer referenced.
        await (await self._join(writer.transport, RelaySide(), sock, b"", greeting))

    async def _forward(self, client: HttpServerStream, request: HttpHead) -> None:
        """Forwards one unencrypted request. The connection ends with the response: another request may be for
        another host."""
        parts = urlsplit(request.target.decode("latin-1"))
        if parts.scheme != "http" or not parts.hostname or request.is_chunked:
            raise ValueError("not a request to a proxy")
        body = await _body(client)
        sock = await self._dialer.dial(parts.hostname, parts.port or 80, self._lookups)
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        fields: list[Field] = [
            (name, value) for name, value in request.fields if not _is_hop_by_hop(name.lower())
        ]
        first = b"%b %b HTTP/1.1" % (request.method, target.encode("latin-1"))
        sent = head(first, [*fields, (b"Connection", b"close")]) + body
        await (await self._join(client.writer.transport, _ResponseSide(), sock, sent, b""))

    async def _join(
        self,
        client: asyncio.WriteTransport,
        near: RelaySide,
        sock: socket.socket,
        to_far: bytes,
        to_near: bytes,
    ) -> asyncio.Future[None]:
        """Relays between the client and the connected socket, after sending these bytes to either. Returns a
        future that is done when the client's connection is closed."""
        loop = asyncio.get_running_loop()
        far = RelaySide()
        near.other, far.other = far, near
        ended = loop.create_future()
        for side in (near, far):
            self._sides.add(side)
            side.closed = partial(self._forget, side, ended if side is near else None)
        await loop.create_connection(lambda: far, sock=sock)
        client.set_protocol(near)
        RelaySide.connection_made(near, client)
        if far.transport is not None and to_far:
            far.transport.write(to_far)
        if to_near:
            client.write(to_near)
        if client.is_closing() or far.transport is None:
            client.abort()
            near.connection_lost(None)
        return ended

    def _forget(self, side: RelaySide, ended: asyncio.Future[None] | None) -> None:
        self._sides.discard(side)
        if ended is not None and not ended.done():
            ended.set_result(None)


class _RelayedClient(RelaySide):
    """A client of a registry on loopback: nothing is read from it before the registry is connected."""

    def __init__(self, on_client: Callable[[asyncio.Transport, RelaySide], None]) -> None:
        super().__init__()
        self._on_client = on_client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        # Not at once: asyncio of Python 3.11.2 (Debian 12) begins to read after this call.
        asyncio.get_running_loop().call_soon(self.transport.pause_reading)
        self._on_client(self.transport, self)


class _ResponseSide(RelaySide):
    """A client that has sent its only request."""

    def data_received(self, data: bytes) -> None:
        del data
        if self.transport is not None:
            self.transport.abort()


def _is_hop_by_hop(name: bytes) -> bool:
    return name in _HOP_BY_HOP or name.startswith(b"proxy-")


async def _body(client: HttpServerStream) -> bytes:
    body = b""
    while not isinstance(event := await client.next(REQUEST_SECONDS_MAX), MessageMark):
        assert isinstance(event, bytes)
        body += event
        if len(body) > REQUEST_BYTES_MAX:
            raise ValueError("the request's body is too large")
    if event is MessageMark.LOST:
        raise EOFError("the client closed the connection")
    return body


async def _refuse(writer: asyncio.StreamWriter, status: int, message: str) -> None:
    """Go programs show the reason of the status line as the error of a tunnel."""
    with suppress(OSError):
        fields: list[Field] = [(b"Content-Length", b"0"), (b"Connection", b"close")]
        writer.write(head(status_line(status, message.encode()), fields))
        await writer.drain()
    writer.close()


def _make_namespace() -> int:
    """Runs in a thread. A new namespace, whose only device is loopback."""
    namespace = namespaces.make_unnamed()
    try:
        with namespaces.inside(namespace), closing(Netlink()) as netlink:
            loopback = links.read_link(netlink, "lo")
            if loopback is None:
                raise KernelRefused("find the loopback device", 0)
            netlink.do(links.set_link(loopback.index))
    except BaseException:
        os.close(namespace)
        raise
    return namespace
