"""One connection against servers that answer oddly, slowly or not at all."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from alcove.client import connection
from alcove.client.connection import Connection
from alcove.client.errors import Malformed, Unreachable

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
REQUEST = b"GET / HTTP/1.1\r\n\r\n"


@asynccontextmanager
async def connected(answer: Answer) -> AsyncIterator[Connection]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    _, made = await loop.create_connection(Connection, "127.0.0.1", port)
    try:
        yield made
    finally:
        made.close()
        server.close()


async def head(reader: asyncio.StreamReader) -> None:
    await reader.readuntil(b"\r\n\r\n")


async def test_one_connection_carries_many_requests() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(3):
            await head(reader)
            writer.write(b"HTTP/1.1 20%d X\r\nContent-Length: 2\r\nA-b: c\r\n\r\n%d!" % (number, number))

    async with connected(answer) as made:
        answers = [await made.send(REQUEST) for _ in range(3)]
    assert [each.status for each in answers] == [200, 201, 202]
    assert [each.body for each in answers] == [b"0!", b"1!", b"2!"]
    assert answers[0].headers == {"content-length": "2", "a-b": "c"}


async def test_a_closed_connection_is_no_longer_usable() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")

    async with connected(answer) as made:
        assert (await made.send(REQUEST)).status == 200
        assert not made.is_usable


async def test_a_connection_lost_before_the_answer_may_have_been_acted_on() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head(reader)

    async with connected(answer) as made:
        with pytest.raises(Unreachable) as lost:
            await made.send(REQUEST)
        assert lost.value.sent
        with pytest.raises(Unreachable) as refused:
            await made.send(REQUEST)
        assert not refused.value.sent


async def test_what_is_not_http_is_malformed() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head(reader)
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        await reader.read()

    async with connected(answer) as made:
        with pytest.raises(Malformed):
            await made.send(REQUEST)


async def test_a_cancelled_request_gives_the_connection_to_nobody() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with connected(answer) as made:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await made.send(REQUEST)
        assert not made.is_usable


async def test_a_stream_is_read_no_faster_than_it_is_consumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUFFERED_BYTES_MAX", 10_000)
    sent = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(2_000):
            writer.write(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
            await writer.drain()
            sent += 0x4000
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async with connected(answer) as made:
        await made.open(REQUEST)
        await asyncio.sleep(0.2)
        assert sent < 2_000 * 0x4000  # The rest waits in the server.
        received = 0
        async for chunk in made.chunks():
            received += len(chunk)
    assert received == 2_000 * 0x4000


async def test_a_stream_that_breaks_is_told_after_what_came() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")

    async with connected(answer) as made:
        await made.open(REQUEST)
        received = []
        with pytest.raises(Unreachable):
            async for chunk in made.chunks():
                received.append(chunk)
    assert received == [b"abc"]
