"""The connections of a server: their number, their timeouts, and how the server stops."""

import asyncio

import pytest

from alcove.http import server
from alcove.http.errors import HttpError
from alcove.http.limits import HttpLimits
from alcove.http.messages import SLICE_BYTES, BodyParts, HttpRequest, HttpResponse
from alcove.http.server import HttpServer

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def serving(**limits: float) -> HttpServer:
    def answer(_request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, b"ok")

    return HttpServer(
        answer,
        "127.0.0.1",
        0,
        group_of=lambda _peer: "all",
        unlimited_group="all",
        limits=HttpLimits(**limits),  # type: ignore[arg-type]
    )


async def connected(made: HttpServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
    writer.write(GET)
    return reader, writer


async def test_one_connection_too_many_is_closed() -> None:
    async with serving(connections_max=2) as made, asyncio.timeout(60):
        kept = [await connected(made) for _ in range(2)]
        for reader, _ in kept:
            await reader.readuntil(b"ok")
        reader, _ = await connected(made)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readuntil(b"ok")
        kept[0][1].write(GET)
        await kept[0][0].readuntil(b"ok")


async def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SWEEP_SECONDS", 0.05)
    async with serving(idle_seconds_max=0.3) as made, asyncio.timeout(60):
        reader, _ = await connected(made)
        await reader.readuntil(b"ok")
        assert await reader.read() == b""


async def test_a_server_that_stops_closes_its_connections() -> None:
    async with asyncio.timeout(60):
        async with serving() as made:
            reader, _ = await connected(made)
            await reader.readuntil(b"ok")
        assert await reader.read() == b""


async def test_a_failing_handler_gets_the_owners_error_response() -> None:
    async def fail(_request: HttpRequest) -> HttpResponse:
        raise ZeroDivisionError

    def render(error: HttpError) -> HttpResponse:
        return HttpResponse(error.status, b"<failed>", b"text/html")

    async with HttpServer(fail, "127.0.0.1", 0, render_error=render) as made, asyncio.timeout(60):
        reader, writer = await connected(made)
        first = await reader.readuntil(b"<failed>")
        assert first.startswith(b"HTTP/1.1 500 ") and b"text/html" in first
        writer.write(GET)
        assert await reader.readuntil(b"<failed>")


async def test_a_group_that_loads_much_does_not_delay_the_responses_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "SENDING_SECONDS", 0.0)
    body = BodyParts([bytes(SLICE_BYTES + 1)] * 24)
    order: list[str] = []

    def answer(request: HttpRequest) -> HttpResponse:
        assert request.connection is not None
        request.connection.claim(request.path[1:])
        return HttpResponse(200, body)

    async def load(made: HttpServer, group: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        writer.write(f"GET /{group} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(len(body)) == bytes(body)
        order.append(group)
        writer.close()

    async with HttpServer(answer, "127.0.0.1", 0, group_of=lambda _peer: "") as made, asyncio.timeout(60):
        loading = [asyncio.create_task(load(made, "many")) for _ in range(12)]
        await asyncio.sleep(0)
        await asyncio.gather(load(made, "few"), *loading)
    assert order.index("few") < 6
