"""Every HTTP server of the project against hostile clients, on real sockets: smuggling, limits, half-closed connections.

api      HttpServer, as the API server uses it: bodies are kept in memory
upload   HttpServer with uploads: requests are handled before their bodies have come
ingress  the ingress proxy, in front of a server that notes what reaches it
node     HttpServerStream, as the agent's server uses it: one request per connection
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from alcove.agent.ingress.limits import IngressLimits
from alcove.http import server
from alcove.http.errors import HttpError
from alcove.http.limits import HttpLimits
from alcove.http.messages import HttpRequest, HttpResponse
from alcove.http.server import HttpServer
from alcove.http.streams import HttpServerStream
from alcove.testing.ingress import HOST, ProxyLab

SECONDS = 60.0
BOUNDS: dict[str, Any] = {
    "head_bytes_max": 8_192,
    "headers_max": 30,
    "body_bytes_max": 100_000,
    "head_seconds_max": SECONDS,
}
BODY_BYTES_MAX = 100_000
HEADS = f"Host: {HOST}\r\n".encode()
SMUGGLED = b"GET /smuggled HTTP/1.1\r\n" + HEADS + b"\r\n"


class Peer:
    """A server, and the requests that its backend received: method, path, body."""

    def __init__(self) -> None:
        self.address = ("", 0)
        self.seen: list[tuple[str, str, bytes]] = []

    def answer(self, method: str, path: str, body: bytes) -> bytes:
        self.seen.append((method, path, body))
        return b"<%b>" % path.encode()


async def api(peer: Peer, stack: AsyncExitStack, *, upload: bool = False) -> None:
    async def read(request: HttpRequest) -> HttpResponse:
        assert request.upload is not None
        body = await request.upload.read(BODY_BYTES_MAX)
        return HttpResponse(200, peer.answer(request.method, request.path, body))

    def handle(request: HttpRequest) -> HttpResponse | Coroutine[Any, Any, HttpResponse]:
        if request.upload is not None:
            return read(request)
        return HttpResponse(200, peer.answer(request.method, request.path, request.body))

    made = HttpServer(
        handle, "127.0.0.1", 0, limits=HttpLimits(**BOUNDS), streams_body=lambda _request: upload
    )
    await stack.enter_async_context(made)
    peer.address = ("127.0.0.1", made.port)


async def upload(peer: Peer, stack: AsyncExitStack) -> None:
    await api(peer, stack, upload=True)


async def ingress(peer: Peer, stack: AsyncExitStack) -> None:
    behind = Peer()
    behind.seen = peer.seen
    await api(behind, stack)
    lab = ProxyLab()
    await lab.start(IngressLimits(**BOUNDS))
    lab.lead_to(behind.address)
    stack.push_async_callback(lab.close)
    peer.address = ("127.0.0.1", lab.address[1])


async def node(peer: Peer, stack: AsyncExitStack) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = HttpServerStream(reader, writer, HttpLimits(**BOUNDS))
        try:
            head = await stream.request()
            await stream.respond(200, peer.answer(head.method.decode(), head.target.decode(), b""))
        except HttpError as error:
            await stream.respond(error.status, str(error).encode())
            await stream.linger()
        except (ConnectionError, EOFError, TimeoutError):
            pass
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    stack.callback(listener.close)
    peer.address = listener.sockets[0].getsockname()


PEERS = {"api": api, "upload": upload, "ingress": ingress, "node": node}


@asynccontextmanager
async def serving(name: str) -> AsyncIterator[Peer]:
    peer = Peer()
    async with AsyncExitStack() as stack, asyncio.timeout(SECONDS):
        await PEERS[name](peer, stack)
        yield peer


async def send(peer: Peer, *pieces: bytes, eof: bool = False) -> bytes:
    """Sends the pieces and returns all received bytes until the server closes. Stops sending if the server
    does."""
    reader, writer = await asyncio.open_connection(*peer.address)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            if len(pieces) > 1:
                await asyncio.sleep(0)
        if eof:
            writer.write_eof()
    except ConnectionError:
        pass
    received = b""
    try:
        while data := await reader.read(1 << 16):
            received += data
    except ConnectionError:
        pass
    writer.close()
    return received


def statuses(received: bytes) -> list[int]:
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]


@pytest.fixture(params=list(PEERS))
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(server, "SWEEP_SECONDS", 0.05)
    return str(request.param)


# Smuggling

AMBIGUOUS = {
    "two lengths": b"Content-Length: 0\r\nContent-Length: %d\r\n",
    "listed lengths": b"Content-Length: 0, %d\r\n",
    "signed length": b"Content-Length: +%d\r\n",
    "length and chunks": b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n",
    "chunks twice": b"X: %d\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "another coding": b"X: %d\r\nTransfer-Encoding: gzip, chunked\r\n",
    "misspelt coding": b"X: %d\r\nTransfer-Encoding: xchunked\r\n",
    "space before colon": b"Transfer-Encoding : chunked\r\nContent-Length: %d\r\n",
    "folded": b"X: %d\r\n Transfer-Encoding: chunked\r\n",
    "bare line feed": b"X: %d\nTransfer-Encoding: chunked\r\n",
    "bare carriage return": b"X: %d\rTransfer-Encoding: chunked\r\n",
    "two hosts": b"Content-Length: %d\r\nHost: other.example\r\n",
    "upgrade with a body": b"Content-Length: %d\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
}


@pytest.mark.parametrize("header", AMBIGUOUS.values(), ids=AMBIGUOUS)
@pytest.mark.parametrize("pieces", ["whole", "cut"])
async def test_an_ambiguous_request_is_refused_and_nothing_after_it_is_read(
    name: str, header: bytes, pieces: str
) -> None:
    body = b"0\r\n\r\n" + SMUGGLED
    raw = b"POST / HTTP/1.1\r\n" + HEADS + header % len(body) + b"\r\n" + body
    cut = [raw] if pieces == "whole" else [raw[start : start + 7] for start in range(0, len(raw), 7)]
    async with serving(name) as peer:
        received = await send(peer, *cut)
        assert not peer.seen
    [status] = statuses(received)
    assert status in (400, 501)


async def test_a_body_that_is_not_chunks_is_not_a_request(name: str) -> None:
    raw = (
        b"POST / HTTP/1.1\r\n"
        + HEADS
        + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n"
        + SMUGGLED
    )
    async with serving(name) as peer:
        await send(peer, raw)
        assert "/smuggled" not in [path for _, path, _ in peer.seen]


async def test_the_body_of_a_request_that_offers_h2c_is_a_body(name: str) -> None:
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    raw = b"POST /first HTTP/1.1\r\n%b%bContent-Length: %d\r\n\r\n%b" % (
        HEADS,
        offer,
        len(SMUGGLED),
        SMUGGLED,
    )
    last = b"GET /last HTTP/1.1\r\n" + HEADS + b"Connection: close\r\n\r\n"
    async with serving(name) as peer:
        assert set(statuses(await send(peer, raw + last))) == {200}
        if name == "node":
            assert peer.seen == [("POST", "/first", b"")]
        else:
            assert peer.seen == [("POST", "/first", SMUGGLED), ("GET", "/last", b"")]


async def test_trailers_are_no_headers(name: str) -> None:
    trailers = b"0\r\nHost: other.example\r\nImpersonate-User: admin\r\n\r\n"
    raw = b"POST /a HTTP/1.1\r\n" + HEADS + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n" + trailers
    last = b"GET /b HTTP/1.1\r\n" + HEADS + b"Connection: close\r\n\r\n"
    async with serving(name) as peer:
        assert set(statuses(await send(peer, raw + last))) == {200}
        if name != "node":
            assert peer.seen == [("POST", "/a", b"x"), ("GET", "/b", b"")]


# Limits

ENDLESS = {
    "target": (b"GET /", b"x"),
    "value": (b"GET / HTTP/1.1\r\n" + HEADS + b"X: ", b"y"),
    "fields": (b"GET / HTTP/1.1\r\n" + HEADS, b"a: b\r\n"),
    "line ends": (b"", b"\r\n"),
}


@pytest.mark.parametrize(("beginning", "endless"), ENDLESS.values(), ids=ENDLESS)
async def test_a_head_without_end_is_refused(name: str, beginning: bytes, endless: bytes) -> None:
    async with serving(name) as peer:
        pieces = [beginning, *([endless * (4_096 // len(endless))] * 1_000)]
        received = await send(peer, *pieces)
        assert not peer.seen
    assert statuses(received) == [431]


@pytest.mark.parametrize("size", [("headers", b"a: b\r\n" * 31), ("bytes", b"a: " + b"b" * 8_192 + b"\r\n")])
async def test_a_head_that_is_too_large_is_answered(name: str, size: tuple[str, bytes]) -> None:
    async with serving(name) as peer:
        received = await send(peer, b"GET / HTTP/1.1\r\n" + HEADS + size[1] + b"\r\n")
        assert not peer.seen
    assert statuses(received) == [431]


CHUNKED = b"POST / HTTP/1.1\r\n" + HEADS + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("beginning", [b"5;", b"5\r\nhello\r\n0\r\nTrailer: "], ids=["extension", "trailer"])
@pytest.mark.parametrize("name", ["api", "upload", "ingress"])
async def test_what_is_between_chunks_and_after_them_is_bounded(name: str, beginning: bytes) -> None:
    async with serving(name) as peer:
        await send(peer, CHUNKED + beginning, *([b"x" * 4_096] * 1_000))
        assert not [body for _, _, body in peer.seen if body != b"hello"]


@pytest.mark.parametrize("name", ["api", "ingress"])
async def test_a_body_that_is_too_large_is_refused(name: str) -> None:
    async with serving(name) as peer:
        length = b"POST / HTTP/1.1\r\n" + HEADS + b"Content-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1)
        assert statuses(await send(peer, length)) == [413]
        await send(peer, CHUNKED, *([b"1000\r\n" + b"x" * 0x1000 + b"\r\n"] * 100))
        assert not peer.seen


async def test_a_slow_request_head_times_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BOUNDS, "head_seconds_max", 0.5)
    async with serving(name) as peer:
        reader, writer = await asyncio.open_connection(*peer.address)
        # Byte by byte: time counts from the first one.
        with pytest.raises((ConnectionError, EOFError)):
            for byte in b"GET / HTTP/1.1\r\n" + HEADS + b"X: " + b"y" * 10_000:
                writer.write(bytes([byte]))
                await writer.drain()
                try:
                    async with asyncio.timeout(0.05):
                        if not await reader.read(1_000):
                            raise EOFError
                except TimeoutError:
                    continue
        assert not peer.seen
        writer.close()


@pytest.mark.parametrize("name", ["api", "ingress"])
async def test_requests_that_are_sent_ahead_are_answered_in_order(name: str) -> None:
    many = [b"GET /%d HTTP/1.1\r\n%b\r\n" % (number, HEADS) for number in range(200)]
    async with serving(name) as peer:
        received = await send(
            peer, b"".join(many), b"GET /last HTTP/1.1\r\n" + HEADS + b"Connection: close\r\n\r\n"
        )
        assert len(peer.seen) == 201
    assert statuses(received) == [200] * 201
    assert [received.index(b"</%d>" % number) for number in range(200)] == sorted(
        received.index(b"</%d>" % number) for number in range(200)
    )


async def test_no_more_requests_are_read_ahead_than_the_limit_allows() -> None:
    go, seen = asyncio.Event(), 0

    async def handle(_request: HttpRequest) -> HttpResponse:
        nonlocal seen
        seen += 1
        await go.wait()
        return HttpResponse(200, b"ok")

    async with HttpServer(handle, "127.0.0.1", 0) as made, asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        large = b"GET / HTTP/1.1\r\n" + HEADS + b"X: " + b"x" * 30_000 + b"\r\n\r\n"
        sent = 0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                for _ in range(2_000):
                    writer.write(large)
                    await writer.drain()
                    sent += 1
        while not seen:  # noqa: ASYNC110 - the server may not have had its turn
            await asyncio.sleep(0.005)
        assert seen == 1 and sent < 2_000, "the rest waits in the kernel's buffers, or at the client"
        go.set()
        for _ in range(sent):
            await reader.readuntil(b"ok")
        assert seen >= sent
        writer.close()


# Half-closed connections


async def test_a_half_closed_client_still_gets_its_response(name: str) -> None:
    async with serving(name) as peer:
        received = await send(peer, b"GET /a HTTP/1.1\r\n" + HEADS + b"\r\n", eof=True)
        assert peer.seen == [("GET", "/a", b"")]
    assert statuses(received) == [200] and received.endswith(b"</a>")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost",
        b"POST / HTTP/1.1\r\n" + HEADS + b"Content-Length: 5\r\n\r\nhel",
        CHUNKED + b"5\r\nhello\r\n",
    ],
    ids=["nothing", "half a head", "half a body", "no last chunk"],
)
@pytest.mark.parametrize("name", ["api", "ingress"])
async def test_half_a_request_is_no_request(name: str, raw: bytes) -> None:
    async with serving(name) as peer:
        received = await send(peer, raw, eof=True)
        assert not peer.seen and 200 not in statuses(received)


async def test_a_client_that_leaves_ends_its_handler() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def handle(_request: HttpRequest) -> HttpResponse:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return HttpResponse(200, b"")

    async with HttpServer(handle, "127.0.0.1", 0) as made, asyncio.timeout(SECONDS):
        _, writer = await asyncio.open_connection("127.0.0.1", made.port)
        writer.write(b"GET / HTTP/1.1\r\n" + HEADS + b"\r\n")
        await begun.wait()
        writer.close()
        await ended.wait()
