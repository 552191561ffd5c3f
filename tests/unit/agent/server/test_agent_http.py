import asyncio

import pytest

from alcove.agent.server.http import HEAD_BYTES_MAX, Request, read_request
from alcove.api.errors import BadRequest


async def parsed(data: bytes) -> Request:
    reader = asyncio.StreamReader(limit=HEAD_BYTES_MAX)
    reader.feed_data(data)
    reader.feed_eof()
    return await read_request(reader)


async def test_a_head_is_taken_apart() -> None:
    request = await parsed(
        b"POST /pods/system/a%20b/exec?command=ls&command=-l&tty=true&tailLines=7 HTTP/1.1\r\n"
        b"Upgrade: SPDY/3.1\r\nConnection: Upgrade\r\n"
        b"X-Stream-Protocol-Version: v4\r\nX-Stream-Protocol-Version: v3\r\n\r\n"
    )
    assert request.method == "POST"
    assert request.path == ("pods", "system", "a b", "exec")
    assert request.query["command"] == ["ls", "-l"]
    assert request.flag("tty") and not request.flag("stdin")
    assert (request.number("tailLines"), request.number("limitBytes")) == (7, None)
    assert request.headers["x-stream-protocol-version"] == "v4, v3"


@pytest.mark.parametrize(
    "data", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * HEAD_BYTES_MAX + b"\r\n"]
)
async def test_what_is_no_head_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest):
        await parsed(data)


async def test_a_connection_that_ends_is_no_request() -> None:
    with pytest.raises(EOFError):
        await parsed(b"GET / HT")


async def test_a_number_is_a_number() -> None:
    request = await parsed(b"GET /?tailLines=-1 HTTP/1.1\r\n\r\n")
    with pytest.raises(BadRequest):
        request.number("tailLines")
