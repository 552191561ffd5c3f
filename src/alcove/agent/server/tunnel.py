"""A connection to a port of a pod or of the node, relayed as bytes; the API server's proxy speaks HTTP over
it.

The agent only dials, and adds TLS if the request's scheme is https.
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
    """Returns when either side closes. Raises BadRequest, and ServiceUnavailable if the port cannot be
    reached."""
    port, scheme = request.number("port") or 0, request.first("scheme", "http")
    if not 0 < port <= 0xFFFF or scheme not in ("http", "https"):
        raise BadRequest("query parameters port (1 to 65535) and scheme (http or https) are required")
    if request.headers.get("upgrade", "").lower() != TUNNEL:
        raise BadRequest(f"unable to upgrade: protocol {TUNNEL} is required")
    reader, writer = await _connect(dial, port, scheme)
    try:
        await connection.switch({"Connection": "Upgrade", "Upgrade": TUNNEL})
        if not await _relay(connection, reader, writer):
            connection.reset()
    finally:
        writer.transport.abort()


async def _connect(dial: Dial, port: int, scheme: str) -> tuple[StreamReader, StreamWriter]:
    try:
        async with asyncio.timeout(DIAL_SECONDS_MAX):
            sock = await dial(port)
            try:
                if scheme == "http":
                    return await asyncio.open_connection(sock=sock)
                return await asyncio.open_connection(sock=sock, ssl=_unverified_tls(), server_hostname="")
            except BaseException:
                sock.close()
                raise
    except (OSError, TimeoutError) as error:
        raise ServiceUnavailable(f"error trying to reach service: {_dial_error(error, port)}") from error


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


async def _relay(connection: HttpServerStream, reader: StreamReader, writer: StreamWriter) -> bool:
    """Whether the connection ended cleanly: all data of the port was sent, or the caller disconnected."""
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
            # The port closed before it read everything. Wait: its response may still be on its way out.
            await asyncio.Event().wait()
    return True


async def _copy_out(connection: HttpServerStream, reader: StreamReader) -> bool:
    try:
        while data := await reader.read(READ_BYTES):
            await connection.write(data)
    except OSError:
        return False
    return True
