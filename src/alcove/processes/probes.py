"""/metrics, /healthz and /readyz on loopback, for processes without an API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

REQUEST_SECONDS_MAX = 5.0


@asynccontextmanager
async def serve_probes(
    port: int | None, metrics: Callable[[], bytes], ready: Callable[[], bool]
) -> AsyncIterator[None]:
    """Serves for the duration of the block; does nothing without a port."""
    if port is None:
        yield
        return

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                request = await reader.readuntil(b"\r\n")
                writer.write(_response(request, metrics, ready))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # The client disconnected or is too slow.
        finally:
            writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", port)
    try:
        yield
    finally:
        server.close()


def _response(request: bytes, metrics: Callable[[], bytes], ready: Callable[[], bool]) -> bytes:
    path = [*request.split(b" "), b""][1]
    status, body = b"404 Not Found", b"not found\n"
    if path == b"/metrics":
        status, body = b"200 OK", metrics()
    elif path == b"/healthz":
        status, body = b"200 OK", b"ok\n"
    elif path == b"/readyz":
        status, body = (b"200 OK", b"ok\n") if ready() else (b"503 Service Unavailable", b"not ready\n")
    head = b"HTTP/1.1 %b\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    return head % (status, len(body)) + body
