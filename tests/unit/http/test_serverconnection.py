"""Connections that are upgraded, and requests that come together."""

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from alcove.http import requests
from alcove.http.limits import HttpLimits
from alcove.http.messages import HttpRequest, HttpResponse, ResponseWriter
from alcove.http.server import HttpServer

ASK = b"GET /up HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
LARGE = 200_000
PLAIN = b"GET /plain HTTP/1.1\r\nHost: x\r\n\r\n"


class Echo:
    """A takeover that echoes all data."""

    def __init__(self) -> None:
        self.stopped = 0
        self._transport: asyncio.Transport | None = None

    def start(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def received(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(b"<" + data + b">")

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def stop(self) -> None:
        self.stopped += 1


class Handler:
    def __init__(self) -> None:
        self.takeovers: list[Echo] = []
        self.done = 0
        self.seen: list[HttpRequest] = []
        self.go = asyncio.Event()
        self.go.set()

    def __call__(self, request: HttpRequest) -> HttpResponse | Coroutine[Any, Any, HttpResponse]:
        self.seen.append(request)
        return HttpResponse(200, b"plain") if request.path == "/plain" else self._answer(request)

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        await self.go.wait()
        if request.path == "/no":
            return HttpResponse(403, b"{}")
        self.takeovers.append(Echo())
        response = HttpResponse(101, self.takeovers[-1], b"", [(b"Connection", b"Upgrade")])
        response.done = self._count
        return response

    def _count(self) -> None:
        self.done += 1


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Handler, HttpServer]]:
    handler = Handler()
    async with HttpServer(handler, "127.0.0.1", 0) as server:
        yield handler, server


async def until(check: Callable[[], bool]) -> None:
    while not check():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0)


async def connected(server: HttpServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", server.port)


async def test_after_a_101_bytes_are_the_takeovers() -> None:
    async with serving() as (handler, server), asyncio.timeout(60):
        reader, writer = await connected(server)
        writer.write(ASK)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
        assert b"Content-" not in head and b"Transfer-Encoding" not in head
        writer.write(b"hello")
        assert await reader.readexactly(7) == b"<hello>"
        writer.close()
        await until(lambda: handler.done > 0)
        assert (handler.takeovers[0].stopped, handler.done) == (1, 1)


async def test_connections_of_a_peer_are_closed_also_after_an_upgrade() -> None:
    async with serving() as (handler, server), asyncio.timeout(60):
        reader, writer = await connected(server)
        writer.write(ASK)
        await reader.readuntil(b"\r\n\r\n")
        other_reader, other_writer = await connected(server)
        other_writer.write(PLAIN)
        await other_reader.readuntil(b"plain")
        assert server.close_peers(lambda _peer: False) == 0
        assert server.close_peers(lambda peer: peer is None) == 2
        for each in (reader, other_reader):
            with contextlib.suppress(ConnectionError):
                assert await each.read() == b""
        await until(lambda: handler.takeovers[0].stopped == 1)


async def test_bytes_that_came_with_the_request_are_not_lost() -> None:
    async with serving() as (handler, server), asyncio.timeout(60):
        handler.go.clear()
        reader, writer = await connected(server)
        writer.write(ASK + b"early")
        await until(lambda: bool(handler.seen))
        writer.write(b"more")
        await asyncio.sleep(0.02)
        handler.go.set()
        await reader.readuntil(b"\r\n\r\n")
        output = b""
        while output.count(b">") < 2:
            output += await reader.read(100)
        assert output == b"<early><more>"


async def test_a_rejected_upgrade_leaves_the_connection_usable() -> None:
    async with serving() as (_, server), asyncio.timeout(60):
        reader, writer = await connected(server)
        writer.write(ASK.replace(b"/up", b"/no") + PLAIN)
        assert b" 403 " in await reader.readuntil(b"}")
        assert b" 200 " in await reader.readuntil(b"plain")
        writer.write(PLAIN)
        assert b" 200 " in await reader.readuntil(b"plain")


async def test_a_request_before_the_one_that_changes_the_protocol_is_answered_first() -> None:
    async with serving() as (handler, server), asyncio.timeout(60):
        handler.go.clear()
        reader, writer = await connected(server)
        writer.write(ASK.replace(b"/up", b"/no").replace(b"Upgrade", b"X-Other") + ASK + b"data")
        await asyncio.sleep(0.02)
        handler.go.set()
        assert b" 403 " in await reader.readuntil(b"}")
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(6) == b"<data>"


async def test_a_client_that_disconnects_before_the_response_cancels_the_takeover() -> None:
    async with serving() as (handler, server), asyncio.timeout(60):
        handler.go.clear()
        _, writer = await connected(server)
        writer.write(ASK)
        await until(lambda: bool(handler.seen))
        writer.transport.abort()
        await asyncio.sleep(0.02)
        handler.go.set()
        await asyncio.sleep(0.02)
        await until(lambda: handler.done == len(handler.takeovers))
        assert all(each.stopped == 1 for each in handler.takeovers)


async def test_a_server_that_stops_ends_takeovers() -> None:
    async with asyncio.timeout(60):
        async with serving() as (handler, server):
            reader, writer = await connected(server)
            writer.write(ASK)
            await reader.readuntil(b"\r\n\r\n")
        assert await reader.read() == b""
        assert handler.takeovers[0].stopped == 1


async def test_every_protocol_that_is_offered_is_seen() -> None:
    async with serving() as (handler, server), asyncio.timeout(60):
        reader, writer = await connected(server)
        lines = (
            b"X-Stream-Protocol-Version: v4\r\nX-Stream-Protocol-Version: v3\r\nAccept: a\r\nAccept: b\r\n"
        )
        writer.write(b"GET /plain HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n")
        await reader.readuntil(b"plain")
        headers = handler.seen[0].headers
        assert headers["x-stream-protocol-version"] == "v4, v3"
        assert headers["accept"] == "a, b"


async def test_a_client_that_does_not_read_does_not_fill_the_memory_with_responses() -> None:
    seen = 0

    def answer(_request: HttpRequest) -> HttpResponse:
        nonlocal seen
        seen += 1
        return HttpResponse(200, b"x" * LARGE)

    async with HttpServer(answer, "127.0.0.1", 0) as server, asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 12)
        writer.write(PLAIN * 500)
        before = -1
        while not seen or seen != before:
            before = seen
            await asyncio.sleep(0.1)
        # What the kernel holds, and one response more.
        assert 0 < seen < 200
        for _ in range(500):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            await reader.readexactly(LARGE)
        assert seen == 500
        writer.close()


async def test_pipelined_requests_leave_room_for_other_connections() -> None:
    order: list[str] = []

    def answer(request: HttpRequest) -> HttpResponse:
        order.append(request.path)
        return HttpResponse(200, b"plain")

    async with HttpServer(answer, "127.0.0.1", 0) as server, asyncio.timeout(30):
        flood, other = await connected(server), await connected(server)
        flood[1].write(PLAIN * 2_000)
        other[1].write(ASK)
        await other[0].readuntil(b"plain")
        assert len(order) < 200
        for _ in range(2_000):
            await flood[0].readuntil(b"plain")
        for _, writer in (flood, other):
            writer.close()


async def test_many_requests_behind_a_slow_one_are_all_answered() -> None:
    async with serving() as (handler, server), asyncio.timeout(30):
        handler.go.clear()
        reader, writer = await connected(server)
        writer.write(ASK.replace(b"/up", b"/no").replace(b"Upgrade", b"X") + PLAIN * 3_000)
        await until(lambda: bool(handler.seen))
        handler.go.set()
        for _ in range(3_000):
            await reader.readuntil(b"plain")
        writer.close()


async def test_bytes_behind_an_endless_response_close_the_connection() -> None:
    class Endless:
        def __init__(self) -> None:
            self.stopped = False

        def start(self, writer: ResponseWriter) -> None:
            writer.write(b"first")

        def resume(self) -> None:
            pass

        def stop(self) -> None:
            self.stopped = True

    stream = Endless()
    async with (
        HttpServer(lambda _request: HttpResponse(200, stream), "127.0.0.1", 0) as server,
        asyncio.timeout(30),
    ):
        reader, writer = await connected(server)
        writer.write(PLAIN)
        await reader.readuntil(b"first")
        writer.write(PLAIN * 3)
        await asyncio.sleep(0.05)
        assert not stream.stopped
        writer.write(PLAIN * 1_000)
        await until(lambda: stream.stopped)
        writer.close()


async def test_a_request_that_was_answered_is_not_kept_in_memory() -> None:
    kept: list[weakref.ref[HttpRequest]] = []

    class Remembered(HttpRequest):
        __slots__ = ("__weakref__",)

    def answer(request: HttpRequest) -> HttpResponse:
        kept.append(weakref.ref(request))
        return HttpResponse(200, b"plain")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests, "HttpRequest", Remembered)
        async with HttpServer(answer, "127.0.0.1", 0) as server, asyncio.timeout(30):
            reader, writer = await connected(server)
            writer.write(PLAIN)
            await reader.readuntil(b"plain")
            assert [each() for each in kept] == [None]
            writer.close()


async def test_bytes_of_requests_are_counted_for_the_group_until_they_are_answered() -> None:
    held, handler = 0, Handler()

    def count_bytes(group: str, count: int) -> None:
        nonlocal held
        assert group == "acme"
        held += count

    async with (
        HttpServer(
            handler,
            "127.0.0.1",
            0,
            group_of=lambda _peer: "acme",
            count_bytes=count_bytes,
            limits=HttpLimits(uncounted_bytes_max=0),
        ) as server,
        asyncio.timeout(60),
    ):
        reader, writer = await connected(server)
        handler.go.clear()
        writer.write(b"POST /no HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\nX: " + b"x" * 1_000)
        await until(lambda: 1_000 < held < 1_200)
        writer.write(b"\r\n\r\n" + b"b" * 1_999)
        await until(lambda: 1_999 <= held < 3_200)
        writer.write(b"b")
        await until(lambda: bool(handler.seen) and 3_000 < held < 3_200)
        writer.write(PLAIN + b"GET /plain HTTP/1.1\r\nX: " + b"x" * 5_000)
        await until(lambda: 8_000 < held < 8_300)
        handler.go.set()
        await reader.readuntil(b"plain")
        await until(lambda: 5_000 < held < 5_200)
        writer.write(b"\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"plain")
        assert held == 0
        writer.write(PLAIN[:-4])
        await until(lambda: held > 0)
        writer.close()
        await until(lambda: held == 0)


async def test_parts_of_requests_on_many_connections_are_bounded_together() -> None:
    held, total = 0, 300_000

    def count_bytes(_group: str, count: int) -> None:
        nonlocal held
        held += count
        if held > total:
            server.connections.shed("acme", held - total)

    async with (
        HttpServer(
            Handler(), "127.0.0.1", 0, group_of=lambda _peer: "acme", count_bytes=count_bytes
        ) as server,
        asyncio.timeout(60),
    ):
        small_reader, small = await connected(server)
        small.write(b"GET /plain HTTP/1.1\r\nX: " + b"x" * 10_000)
        await until(lambda: held > 0)
        parts = [await connected(server) for _ in range(20)]
        for _, writer in parts:
            writer.write(b"GET /plain HTTP/1.1\r\nX: " + b"x" * 50_000)
        ended = [asyncio.create_task(reader.read()) for reader, _ in parts]
        await until(lambda: sum(task.done() for task in ended) >= 14 and held <= total)
        # Fewer were enough, and a smaller request is not among them.
        assert sum(task.done() for task in ended) < 20
        small.write(b"\r\nHost: x\r\n\r\n")
        await small_reader.readuntil(b"plain")
        for task in ended:
            task.cancel()
        for _, writer in parts:
            writer.close()
        await until(lambda: held == 0)
