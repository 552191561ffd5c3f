"""One connection to a port of a pod, or of the node itself: bytes both ways, for the API server to speak HTTP over.

What the API server proxies is its business; this end dials, and does the TLS where the port wants it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable

from alcove.agent.server.requests import NodeRequest
from alcove.api.errors import BadRequest, ServiceUnavailable
from alcove.api.node_api import TUNNEL
from alcove.component.tasks import stop
from alcove.http.limits import READ_BYTES
from alcove.http.streams import HttpServerStream

DIAL_SECONDS_MAX = 10.0

Dial = Callable[[int], Awaitable[socket.socket]]


async def serve(connection: HttpServerStream, request: NodeRequest, dial: Dial) -> None:
    """Until either side ends. Raises BadRequest, and ServiceUnavailable where nobody listens."""
    port, scheme = request.number("port") or 0, request.first("scheme", "http")
    if not 0 < port <= 0xFFFF or scheme not in ("http", "https"):
        raise BadRequest("a port from 1 to 65535 and a scheme, http or https, are needed")
    if request.headers.get("upgrade", "").lower() != TUNNEL:
        raise BadRequest(f"unable to upgrade: the protocol {TUNNEL} is needed")
    reader, writer = await _dialed(dial, port, scheme)
    try:
        await connection.switch({"Connection": "Upgrade", "Upgrade": TUNNEL})
        if not await _relayed(connection, reader, writer):
            connection.reset()
    finally:
        writer.transport.abort()


async def _dialed(dial: Dial, port: int, scheme: str) -> tuple[StreamReader, StreamWriter]:
    try:
        async with asyncio.timeout(DIAL_SECONDS_MAX):
            made = await dial(port)
            try:
                if scheme == "http":
                    return await asyncio.open_connection(sock=made)
                return await asyncio.open_connection(sock=made, ssl=_any_certificate(), server_hostname="")
            except BaseException:
                made.close()
                raise
    except (OSError, TimeoutError) as error:
        raise ServiceUnavailable(f"error trying to reach service: {_why(error, port)}") from error


def _any_certificate() -> ssl.SSLContext:
    """Nobody vouches for pods' certificates; who they are is known by the way to them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _why(error: OSError | TimeoutError, port: int) -> str:
    """As Go tells it, whose words users know, but without addresses, which may not be the caller's business."""
    if isinstance(error, ssl.SSLError):
        return "tls: first record does not look like a TLS handshake"
    if isinstance(error, OSError) and error.errno:
        return f"dial tcp :{port}: connect: {os.strerror(error.errno).lower()}"
    return f"dial tcp :{port}: {'i/o timeout' if isinstance(error, TimeoutError) else 'connect: connection refused'}"


async def _relayed(connection: HttpServerStream, reader: StreamReader, writer: StreamWriter) -> bool:
    """Whether it ended as it should: the port's last byte was sent, or the caller left."""
    inward = asyncio.create_task(_copy_in(connection, writer), name="tunnel in")
    outward = asyncio.create_task(_copy_out(connection, reader), name="tunnel out")
    try:
        await asyncio.wait((inward, outward), return_when=asyncio.FIRST_COMPLETED)
        if inward.done() and not outward.done():
            return inward.result()
        return outward.result()
    finally:
        await stop(inward, outward)


async def _copy_in(connection: HttpServerStream, writer: StreamWriter) -> bool:
    while data := await connection.read():
        try:
            writer.write(data)
            await writer.drain()
        except ConnectionError:
            # It hung up before it had everything; it may have said why before that.
            await asyncio.Event().wait()
    return True


async def _copy_out(connection: HttpServerStream, reader: StreamReader) -> bool:
    try:
        while data := await reader.read(READ_BYTES):
            await connection.write(data)
    except OSError:
        return False
    return True
