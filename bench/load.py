"""A load of HTTP requests over keep-alive TLS connections, measured from the client's side.

Requests are encoded before the clock starts; answers are read to their end and counted, not parsed:
the generator must stay faster than what it measures.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator
from typing import cast

from msgspec import Struct

RESPONSE_SECONDS_MAX = 60.0
_LAST_CHUNK = b"\r\n0\r\n\r\n"


class Result(Struct, frozen=True):
    requests: int
    errors: int
    seconds: float
    latencies_ms: list[float]

    @property
    def per_s(self) -> float:
        return self.requests / self.seconds

    def percentile_ms(self, share: float) -> float:
        ordered = sorted(self.latencies_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def request(method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: bench",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


class Client(asyncio.Protocol):
    """One connection: one request at a time. Bodies are counted, not kept."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[tuple[int, int]] | None = None
        self._begin()

    def _begin(self) -> None:
        self._head = b""
        self._status = 0
        self._size = 0
        self._needed: int | None = None
        """Bytes of the whole answer; None: it comes in chunks."""
        self._end = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._size += len(data)
        self._end = data if len(data) >= len(_LAST_CHUNK) else self._end + data
        if not self._status:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            self._status = int(self._head[9:12])
            length = _length(self._head[:end])
            self._needed = None if length is None else end + 4 + length
        if self._is_whole() and self._waiting is not None:
            response, waiting = (self._status, self._size), self._waiting
            self._waiting = None
            self._begin()
            waiting.set_result(response)

    def _is_whole(self) -> bool:
        if self._needed is None:
            # One request at a time: what ends like this is the end of its answer.
            return self._end.endswith(_LAST_CHUNK)
        return self._size >= self._needed

    async def send(self, data: bytes) -> tuple[int, int]:
        """Status and size of the answer."""
        assert self._transport is not None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return await self._waiting

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _length(head: bytes) -> int | None:
    """The body's length; None if it comes in chunks."""
    lowered = head.lower()
    at = lowered.find(b"content-length:")
    if at < 0:
        return None
    return int(lowered[at + 15 :].split(b"\r\n", 1)[0])


async def connect(host: str, port: int, tls: ssl.SSLContext) -> Client:
    _, client = await asyncio.get_running_loop().create_connection(
        Client, host, port, ssl=tls, server_hostname="localhost"
    )
    return client


async def run(
    host: str,
    port: int,
    tls: ssl.SSLContext,
    connections: int,
    seconds: float,
    requests: Callable[[], Iterator[bytes]],
) -> Result:
    """Each connection sends what its iterator gives, until the time is over or the iterator ends."""
    clients = [await connect(host, port, tls) for _ in range(connections)]
    latencies: list[float] = []
    errors = 0
    started = time.perf_counter()
    until = started + seconds

    async def drive(client: Client, source: Iterator[bytes]) -> None:
        nonlocal errors
        for data in source:
            before = time.perf_counter()
            if before >= until:
                return
            async with asyncio.timeout(RESPONSE_SECONDS_MAX):
                status, _ = await client.send(data)
            latencies.append((time.perf_counter() - before) * 1000)
            errors += status >= 400

    await asyncio.gather(*(drive(client, requests()) for client in clients))
    elapsed = time.perf_counter() - started
    for client in clients:
        client.close()
    return Result(len(latencies), errors, elapsed, latencies)
