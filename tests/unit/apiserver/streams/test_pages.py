"""Bodies of pages from a real backend: collected whole, or relayed if they are too long."""

import asyncio

import pytest

from alcove.apiserver.streams.pages import PageBody
from alcove.http.client import HttpClientConnection
from alcove.http.messages import HttpRequest, HttpResponse
from alcove.http.server import HttpServer

LIMIT = 1_000


async def collected(answer: bytes) -> tuple[HttpClientConnection, PageBody]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    _, backend = await asyncio.get_running_loop().create_connection(HttpClientConnection, "127.0.0.1", port)
    backend.begin("GET", "/", {"Host": "n"})
    await backend.response()
    listener.close()
    return backend, PageBody(backend, LIMIT)


def response(length: int, sent: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + b"x" * sent


async def test_a_page_is_collected() -> None:
    _, body = await collected(response(LIMIT, LIMIT))
    assert await body.collect() and bytes(body.data) == b"x" * LIMIT


async def test_a_page_that_is_cut_off_is_no_page() -> None:
    _, body = await collected(response(LIMIT, LIMIT - 1))
    with pytest.raises(ConnectionError):
        await body.collect()


@pytest.mark.parametrize("length", [LIMIT + 1, 3_000_000])
async def test_a_long_page_is_relayed_whole(length: int) -> None:
    ended: list[str] = []

    async def answer(_request: HttpRequest) -> HttpResponse:
        _, body = await collected(response(length, length))
        assert not await body.collect()
        assert len(body.data) < LIMIT + 300_000, "no more is held than is read at once"
        return HttpResponse(200, body.relay(lambda: ended.append("ended")), b"text/html")

    async with HttpServer(answer, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        received = await reader.read(-1)
        writer.close()
    assert received.count(b"x") >= length and received.endswith(b"0\r\n\r\n")
    assert ended == ["ended"]
