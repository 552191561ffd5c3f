"""A load of HTTP requests over keep-alive TLS connections, measured from the client's side.

Requests are encoded before the clock starts; answers are read to their end and counted, not parsed:
the generator must stay faster than what it measures.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

from msgspec import Struct

RESPONSE_SECONDS_MAX = 60.0
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_CONTENT_LENGTH = re.compile(rb"\r\n(?:Content-Length|content-length): *(\d+)")


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
        if self._is_whole():
            status, size = self._status, self._size
            self._begin()
            self._answered(status, size)

    def _answered(self, status: int, size: int) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result((status, size))

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
    found = _CONTENT_LENGTH.search(head)
    return None if found is None else int(found[1])


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
    load = Load(seconds)
    loop = asyncio.get_running_loop()
    clients: list[_LoadedClient] = []
    for _ in range(connections):
        _, client = await loop.create_connection(
            partial(_LoadedClient, load, requests()), host, port, ssl=tls, server_hostname="localhost"
        )
        clients.append(client)
    started = load.begin()
    for client in clients:
        client.send_next()
    await asyncio.gather(*(client.done for client in clients))
    elapsed = time.perf_counter() - started
    for client in clients:
        client.close()
    return Result(len(load.latencies_ms), load.errors, elapsed, load.latencies_ms)


class Load:
    """What the connections of one run have in common."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.until = 0.0
        self.latencies_ms: list[float] = []
        self.errors = 0

    def begin(self) -> float:
        started = time.perf_counter()
        self.until = started + self._seconds
        return started


class _LoadedClient(Client):
    """Sends the next request as soon as the last one is answered. Without a task: that would take as long as a request."""

    def __init__(self, load: Load, requests: Iterator[bytes]) -> None:
        super().__init__()
        loop = asyncio.get_running_loop()
        self._load = load
        self._requests = requests
        self._sent = 0.0
        """When the request was sent that is not answered; 0 if there is none."""
        self.done: asyncio.Future[None] = loop.create_future()
        self._timer = loop.call_later(RESPONSE_SECONDS_MAX, self._look)

    def send_next(self) -> None:
        self._sent = time.perf_counter()
        data = next(self._requests, None) if self._sent < self._load.until else None
        if data is None:
            self._finish(None)
        else:
            assert self._transport is not None
            self._transport.write(data)

    def _answered(self, status: int, size: int) -> None:
        del size
        self._load.latencies_ms.append((time.perf_counter() - self._sent) * 1000)
        if status >= 400:
            self._load.errors += 1
        self.send_next()

    def _look(self) -> None:
        waited = time.perf_counter() - self._sent if self._sent else 0.0
        if waited >= RESPONSE_SECONDS_MAX:
            self._finish(TimeoutError("a request was not answered"))
        elif not self.done.done():
            remaining = RESPONSE_SECONDS_MAX - waited
            self._timer = asyncio.get_running_loop().call_later(remaining, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._finish(ConnectionError("the server closed the connection"))

    def _finish(self, error: Exception | None) -> None:
        self._timer.cancel()
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)
