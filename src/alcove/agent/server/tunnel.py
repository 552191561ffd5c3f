"""A connection to a port of a pod or of the node, relayed as bytes; the API server's proxy speaks HTTP over
it.

The agent only dials, and adds TLS if the request's scheme is https.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import cast

from alcove.agent.server.requests import NodeRequest
from alcove.api.errors import BadRequest, ServiceUnavailable
from alcove.api.node_api import TUNNEL
from alcove.http.closing import CLOSED
from alcove.http.limits import READ_BYTES
from alcove.http.streams import HttpServerStream

DIAL_SECONDS_MAX = 10.0

Dial = Callable[[int], Awaitable[socket.socket]]


async def serve(connection: HttpServerStream, request: NodeRequest, dial: Dial) -> None:
    """Returns when either side closes. Raises BadRequest, and ServiceUnavailable if the port cannot be
    reached."""
    port, scheme = request.number("port") or 0, request.first("scheme", "http")
    if not 0 < port <= 0xFFFF or scheme not in ("http", "https"):
        raise BadRequest("query parameters port (1 to 65535) and scheme (http or https) are required")
    if request.headers.get("upgrade", "").lower() != TUNNEL:
        raise BadRequest(f"unable to upgrade: protocol {TUNNEL} is required")
    ended = asyncio.Event()
    port_side = await _connect(dial, port, scheme, ended)
    try:
        await connection.switch({"Connection": "Upgrade", "Upgrade": TUNNEL})
        caller_side = TunnelSide(ended, connection.writer.transport.get_protocol())
        port_side.link(caller_side)
        port_side.write(await connection.hand_over(caller_side))
        await ended.wait()
        if port_side.error is not None:
            connection.reset()
    finally:
        port_side.abort()


async def _connect(dial: Dial, port: int, scheme: str, ended: asyncio.Event) -> TunnelSide:
    loop, side = asyncio.get_running_loop(), TunnelSide(ended)
    try:
        async with asyncio.timeout(DIAL_SECONDS_MAX):
            sock = await dial(port)
            try:
                if scheme == "http":
                    await loop.create_connection(lambda: side, sock=sock)
                else:
                    await loop.create_connection(
                        lambda: side, sock=sock, ssl=_unverified_tls(), server_hostname=""
                    )
            except BaseException:
                sock.close()
                raise
    except (OSError, TimeoutError) as error:
        raise ServiceUnavailable(f"error trying to reach service: {_dial_error(error, port)}") from error
    return side


class TunnelSide(asyncio.Protocol):
    """One of a tunnel's two connections: writes what it reads to the other one, no faster than that is read."""

    def __init__(self, ended: asyncio.Event, before: asyncio.BaseProtocol | None = None) -> None:
        """`ended` is set when the peer has closed. `before` is the protocol that had the transport before, and is
        told when the connection is lost."""
        self.error: Exception | None = None
        """Why the connection was lost, if it was not closed."""
        self._ended = ended
        self._before = before
        self._transport: asyncio.Transport = CLOSED
        self._other: TunnelSide | None = None
        self._early = b""
        """Data that was received before the other side is known."""

    def link(self, other: TunnelSide) -> None:
        self._other, other._other = other, self

    def write(self, data: bytes) -> None:
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def abort(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=READ_BYTES)
        if self._other is not None:
            self.write(self._other._early)
            self._other._early = b""

    def data_received(self, data: bytes) -> None:
        if self._other is not None and self._other._transport is not CLOSED:
            self._other._transport.write(data)
        else:
            self._early += data

    def eof_received(self) -> bool:
        """The connection stays open, so that what was written to it is sent; with TLS that is not possible."""
        self._ended.set()
        return self._transport.get_extra_info("sslcontext") is None

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self._ended.set()
        if self._before is not None:
            self._before.connection_lost(exc)

    def pause_writing(self) -> None:
        if self._other is not None and not self._other._transport.is_closing():
            self._other._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._other is not None and not self._other._transport.is_closing():
            self._other._transport.resume_reading()


def _unverified_tls() -> ssl.SSLContext:
    """No certificate is verified: there is no authority for pods' certificates, and the agent dials the pod
    directly."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _dial_error(error: OSError | TimeoutError, port: int) -> str:
    """The message in the form of Go's net package, without addresses, which tenants must not see."""
    if isinstance(error, ssl.SSLError):
        return "tls: first record does not look like a TLS handshake"
    if isinstance(error, OSError) and error.errno:
        return f"dial tcp :{port}: connect: {os.strerror(error.errno).lower()}"
    return f"dial tcp :{port}: {'i/o timeout' if isinstance(error, TimeoutError) else 'connect: connection refused'}"
