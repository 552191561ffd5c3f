"""Every HTTP client of the project against hostile servers, on real sockets: smuggling, limits, half-closed connections.

connection  HttpClientConnection, as the API client, webhooks and requests to agents use it
stream      HttpClientStream, as the ingress uses it towards backends
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import pytest

from alcove.http.client import HttpClientConnection
from alcove.http.errors import HttpError
from alcove.http.limits import HttpLimits
from alcove.http.messages import HttpHead
from alcove.http.streams import HttpClientStream, MessageMark
from alcove.http.writing import request_head

SECONDS = 60.0
LIMITS = HttpLimits(head_bytes_max=8_192, headers_max=30, interim_responses_max=4)
HEADERS = {"Host": "a"}
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Client(Protocol):
    @property
    def is_reusable(self) -> bool: ...

    async def get(self, method: str = "GET") -> bytes:
        """The body of the response. Raises HttpError, ConnectionError."""
        ...

    def abort(self) -> None: ...


class ByConnection:
    def __init__(self, connection: HttpClientConnection) -> None:
        self._connection = connection

    @property
    def is_reusable(self) -> bool:
        return self._connection.is_reusable

    async def get(self, method: str = "GET") -> bytes:
        return (await self._connection.exchange(method, "/", HEADERS, bytes_max=1 << 20)).body

    def abort(self) -> None:
        self._connection.abort()


class ByStream:
    def __init__(self, stream: HttpClientStream) -> None:
        self._stream = stream

    @property
    def is_reusable(self) -> bool:
        return self._stream.is_reusable

    async def get(self, method: str = "GET") -> bytes:
        stream, body = self._stream, b""
        stream.begin(method.encode())
        stream.writer.write(request_head(method, "/", HEADERS))
        head: HttpHead | None = None
        while (event := await stream.next(SECONDS)) is not MessageMark.LOST:
            if isinstance(event, HttpHead):
                head = event if event.status >= 200 else None
            elif isinstance(event, bytes):
                body += event
            elif head is not None:
                return body
        if head is None or not head.ends_with_connection:
            raise ConnectionResetError
        return body

    def abort(self) -> None:
        self._stream.abort()


async def by_connection(sock: socket.socket) -> Client:
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: HttpClientConnection(LIMITS), sock=sock)
    return ByConnection(connection)


async def by_stream(sock: socket.socket) -> Client:
    return ByStream(await HttpClientStream.over(sock, LIMITS))


CLIENTS = {"connection": by_connection, "stream": by_stream}


@pytest.fixture(params=list(CLIENTS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def connected(name: str, serve: Serve) -> AsyncIterator[Client]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    sock = socket.create_connection(server.sockets[0].getsockname())
    sock.setblocking(False)
    async with asyncio.timeout(SECONDS):
        client = await CLIENTS[name](sock)
        try:
            yield client
        finally:
            client.abort()
            server.close()


def responding(*answers: bytes, eof: bool = False) -> Serve:
    """Sends these responses one after another, then half-closes if `eof`, and waits for the client to close."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for each in answers:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(each)
            await writer.drain()
        if eof:
            writer.write_eof()
        await reader.read()

    return serve


# Smuggling

AMBIGUOUS = {
    "two lengths": b"Content-Length: 2\r\nContent-Length: 3",
    "equal lengths": b"Content-Length: 2\r\nContent-Length: 2",
    "listed lengths": b"Content-Length: 2, 2",
    "signed length": b"Content-Length: +2",
    "length and chunks": b"Content-Length: 2\r\nTransfer-Encoding: chunked",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 2",
    "another coding": b"Transfer-Encoding: gzip, chunked",
    "misspelt coding": b"Transfer-Encoding: xchunked",
    "space before colon": b"Content-Length : 2",
    "folded": b"X: a\r\n Content-Length: 2",
    "bare line feed": b"X: a\nContent-Length: 2",
}


@pytest.mark.parametrize("header", AMBIGUOUS.values(), ids=AMBIGUOUS)
async def test_an_ambiguous_response_is_refused(name: str, header: bytes) -> None:
    async with connected(name, responding(b"HTTP/1.1 200 OK\r\n" + header + b"\r\n\r\nok" + OK)) as client:
        with pytest.raises(HttpError):
            await client.get()


@pytest.mark.parametrize("more", [OK, OK[:20], OK[:1], b"junk"])
async def test_an_unsolicited_response_is_never_delivered(name: str, more: bytes) -> None:
    async with connected(name, responding(OK + more)) as client:
        try:
            assert await client.get() == b"ok"
        except HttpError:
            pass
        assert not client.is_reusable


async def test_a_late_unsolicited_response_is_never_delivered(name: str) -> None:
    later, said = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await later.wait()
        writer.write(OK[:1])
        await writer.drain()
        said.set()
        await reader.read()

    async with connected(name, serve) as client:
        assert await client.get() == b"ok"
        assert client.is_reusable
        later.set()
        while client.is_reusable:  # noqa: ASYNC110 - nothing signals its arrival
            await asyncio.sleep(0.005)


async def test_a_response_to_head_has_no_body(name: str) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    async with connected(name, responding(answer, OK)) as client:
        assert await client.get("HEAD") == b""
        assert client.is_reusable
        assert await client.get() == b"ok"
    async with connected(name, responding(answer + b"hello")) as client:
        with pytest.raises(HttpError):
            await client.get("HEAD")


# Limits


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000,
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 31 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 8_192 + b"\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 5,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * 1_000_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"y" * 1_000_000,
    ],
    ids=["endless", "headers", "bytes", "interim", "extension", "trailer"],
)
async def test_what_is_not_body_is_bounded(name: str, answer: bytes) -> None:
    async with connected(name, responding(answer)) as client:
        with pytest.raises(HttpError):
            await client.get()


async def test_some_interim_responses_are_skipped(name: str) -> None:
    async with connected(name, responding(b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n" * 3 + OK)) as client:
        assert await client.get() == b"ok"
        assert client.is_reusable


# Half-closed connections


async def test_a_half_closed_server_gets_no_further_request(name: str) -> None:
    async with connected(name, responding(OK, eof=True)) as client:
        assert await client.get() == b"ok"
        while client.is_reusable:  # noqa: ASYNC110 - nothing signals its arrival
            await asyncio.sleep(0.005)


async def test_a_body_without_length_ends_with_the_connection(name: str) -> None:
    async with connected(name, responding(b"HTTP/1.1 200 OK\r\n\r\nhello", eof=True)) as client:
        assert await client.get() == b"hello"
        assert not client.is_reusable


@pytest.mark.parametrize(
    "said",
    [b"", OK[:5], OK[:-1], b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"],
    ids=["nothing", "half a head", "half a body", "no last chunk"],
)
async def test_half_a_response_is_none(name: str, said: bytes) -> None:
    async with connected(name, responding(said, eof=True)) as client:
        with pytest.raises(ConnectionError):
            await client.get()
        assert not client.is_reusable
