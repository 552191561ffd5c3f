import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from alcove.agent.server.requests import NodeRequest, read_request
from alcove.api.errors import BadRequest
from alcove.http.streams import HttpServerStream


@asynccontextmanager
async def served() -> AsyncIterator[tuple[HttpServerStream, asyncio.StreamWriter]]:
    """A server's side of a connection, and what the client writes to."""
    made: asyncio.Future[HttpServerStream] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(
        lambda reader, writer: made.set_result(HttpServerStream(reader, writer)), "127.0.0.1", 0
    )
    async with server, asyncio.timeout(60):
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        stream = await made
        try:
            yield stream, writer
        finally:  # Since Python 3.12 a server waits for its connections.
            writer.close()
            stream.writer.close()


async def parsed(data: bytes) -> NodeRequest:
    async with served() as (stream, writer):
        writer.write(data)
        writer.write_eof()
        return await read_request(stream)


async def test_a_head_is_taken_apart() -> None:
    request = await parsed(
        b"POST /pods/system/a%20b/exec?command=ls&command=-l&tty=true&tailLines=7 HTTP/1.1\r\nHost: n\r\n"
        b"Upgrade: SPDY/3.1\r\nConnection: Upgrade\r\n"
        b"X-Stream-Protocol-Version: v4\r\nX-Stream-Protocol-Version: v3\r\n\r\n"
    )
    assert request.method == "POST"
    assert request.path == ("pods", "system", "a b", "exec")
    assert request.query["command"] == ["ls", "-l"]
    assert request.flag("tty") and not request.flag("stdin")
    assert (request.number("tailLines"), request.number("limitBytes")) == (7, None)
    assert request.headers["x-stream-protocol-version"] == "v4, v3"


async def test_bytes_that_came_with_the_request_are_the_next_protocols() -> None:
    async with served() as (stream, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: n\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nearly")
        await read_request(stream)
        assert await stream.read() == b"early"
        writer.write(b"later")
        assert await stream.read() == b"later"


@pytest.mark.parametrize(
    "data", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 65_536 + b"\r\n"]
)
async def test_what_is_no_head_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest):
        await parsed(data)


async def test_a_connection_that_ends_is_no_request() -> None:
    with pytest.raises(EOFError):
        await parsed(b"GET / HT")


async def test_a_number_is_a_number() -> None:
    request = await parsed(b"GET /?tailLines=-1 HTTP/1.1\r\nHost: n\r\n\r\n")
    with pytest.raises(BadRequest):
        request.number("tailLines")
