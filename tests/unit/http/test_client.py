"""A client's connection to servers that respond incorrectly, slowly or not at all."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from alcove.http import client
from alcove.http.client import HttpClientConnection, ReceivedResponse
from alcove.http.errors import BodyTooLarge, HeadTooLarge, HttpError, MalformedMessage, RequestNotSent

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEADERS = {"Host": "a"}
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def connected(answer: Answer) -> AsyncIterator[HttpClientConnection]:
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
    _, made = await loop.create_connection(HttpClientConnection, "127.0.0.1", port)
    try:
        async with asyncio.timeout(30):
            yield made
    finally:
        made.abort()
        server.close()


async def head(reader: asyncio.StreamReader) -> None:
    await reader.readuntil(b"\r\n\r\n")


def responding(*answers: bytes, leaving: bool = False) -> Answer:
    """A server that sends these responses one after another, then waits for the client to close, or closes
    itself."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for each in answers:
            await head(reader)
            writer.write(each)
        await writer.drain()
        if not leaving:
            await reader.read()

    return answer


async def get(made: HttpClientConnection, method: str = "GET", bytes_max: int = 1 << 20) -> ReceivedResponse:
    return await made.exchange(method, "/", HEADERS, bytes_max=bytes_max)


async def test_one_connection_carries_many_exchanges() -> None:
    answers = [b"HTTP/1.1 20%d X\r\nContent-Length: 2\r\nA-b: c\r\n\r\n%d!" % (n, n) for n in range(3)]
    async with connected(responding(*answers)) as made:
        found = [await get(made) for _ in range(3)]
        assert made.is_reusable
    assert [(each.status, each.body) for each in found] == [(200, b"0!"), (201, b"1!"), (202, b"2!")]
    assert found[0].headers == {"content-length": "2", "a-b": "c"}


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1;x\r\nk\r\n0\r\nT: t\r\n\r\n",
    ],
)
async def test_a_response_may_come_in_many_ways(answer: bytes) -> None:
    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head(reader)
        for byte in answer:
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        await reader.read()

    async with connected(slowly) as made:
        assert (await get(made)).body == b"ok"
        assert made.is_reusable


async def test_a_response_may_end_with_the_connection() -> None:
    async with connected(responding(b"HTTP/1.1 200 OK\r\n\r\nhello", leaving=True)) as made:
        assert (await get(made)).body == b"hello"
        assert not made.is_reusable


async def test_a_closed_connection_is_no_longer_reusable() -> None:
    answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    async with connected(responding(answer)) as made:
        assert (await get(made)).status == 200
        assert not made.is_reusable


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        OK[:-1],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
    ],
)
async def test_a_truncated_response_raises_an_error(raw: bytes) -> None:
    async with connected(responding(raw, leaving=True)) as made:
        with pytest.raises(ConnectionError) as lost:
            await get(made)
        assert not isinstance(lost.value, RequestNotSent), "the server may have acted on it"
        with pytest.raises(RequestNotSent):
            await get(made)


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", MalformedMessage),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", MalformedMessage),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", MalformedMessage),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", MalformedMessage),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", MalformedMessage),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100, MalformedMessage),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 300 + b"\r\n", HeadTooLarge),
        (b"HTTP/1.1 200 OK\r\nA: " + b"a" * (1 << 20), HeadTooLarge),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n" + b"x" * 2_000_000, BodyTooLarge),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2_000_000, BodyTooLarge),
    ],
)
async def test_malformed_and_oversized_responses_close_the_connection(
    raw: bytes, error: type[HttpError]
) -> None:
    async with connected(responding(raw)) as made:
        with pytest.raises(error):
            await get(made)
        assert not made.is_reusable


@pytest.mark.parametrize("extra", [b"H", OK, b"HTTP/1.1 200 OK\r\nContent-", b"junk"])
async def test_an_unsolicited_response_closes_the_connection(extra: bytes) -> None:
    async with connected(responding(OK + extra)) as made:
        assert (await get(made)).body == b"ok"
        assert not made.is_reusable

    later = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head(reader)
        writer.write(OK)
        await later.wait()
        writer.write(extra)
        await reader.read()

    async with connected(answer) as made:
        await get(made)
        assert made.is_reusable
        later.set()
        while made.is_open:  # noqa: ASYNC110 - closing sends no notification
            await asyncio.sleep(0.005)
        assert not made.is_reusable


async def test_a_response_to_head_has_no_body() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    async with connected(responding(answer, OK)) as made:
        found = await get(made, "HEAD")
        assert (found.headers["content-length"], found.body) == ("5", b"")
        assert (await get(made)).body == b"ok"
    async with connected(responding(answer + b"hello")) as made:
        with pytest.raises(MalformedMessage):
            await get(made, "HEAD")


async def test_a_cancelled_exchange_closes_its_connection() -> None:
    for wait in (lambda made: get(made), _begun):
        async with connected(responding(b"")) as made:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await wait(made)
            assert not made.is_reusable


async def _begun(made: HttpClientConnection) -> object:
    made.begin("GET", "/", HEADERS)
    return await made.response()


async def test_a_body_is_read_no_faster_than_it_is_consumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "BUFFERED_BYTES_MAX", 10_000)
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
        await reader.read()

    async with connected(answer) as made:
        await _begun(made)
        await asyncio.sleep(0.2)
        assert sent < 2_000 * 0x4000  # The rest waits in the server.
        received = 0
        async for chunk in made.chunks():
            received += len(chunk)
        assert made.is_reusable
    assert received == 2_000 * 0x4000


async def test_a_body_that_breaks_off_raises_after_what_came() -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
    async with connected(responding(answer, leaving=True)) as made:
        await _begun(made)
        received = []
        with pytest.raises(ConnectionError):
            async for chunk in made.chunks():
                received.append(chunk)
    assert received == [b"abc"]


async def test_http_within_a_tunnel() -> None:
    switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tunnel\r\n\r\n"
    async with connected(responding(switch, OK, OK)) as made:
        await _begun(made)
        assert made.status == 101
        inner = made.tunnelled()
        assert [(await get(inner)).body for _ in range(2)] == [b"ok", b"ok"]
        inner.abort()
    # A backend that speaks before it is asked does not speak HTTP.
    async with connected(responding(switch + b"220 mail.example\r\n")) as made:
        await _begun(made)
        with pytest.raises(RequestNotSent):
            await get(made.tunnelled())


async def test_a_large_head_within_the_limit_is_accepted() -> None:
    async with connected(
        responding(b"HTTP/1.1 200 OK\r\nA: " + b"a" * 60_000 + b"\r\nContent-Length: 0\r\n\r\n")
    ) as made:
        assert len((await get(made)).headers["a"]) == 60_000


async def test_aborting_a_connection_fails_the_task_that_waits_for_its_body() -> None:
    """Watches of a replaced credential waited for ever on connections that were closed."""
    async with connected(
        responding(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
    ) as made:
        made.begin("GET", "/", HEADERS)
        await made.response()
        chunks = made.chunks()
        assert await anext(chunks) == b"ok"
        waiting = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        made.abort()
        with pytest.raises(ConnectionError):
            await waiting
