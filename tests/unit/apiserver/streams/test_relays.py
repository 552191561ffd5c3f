"""Relays between a real client and a real agent's connection, over TCP."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from alcove.api.errors import NotFound, ServiceUnavailable
from alcove.apiserver.streams.agent_addresses import AgentAddress
from alcove.apiserver.streams.agents import ask, error_of
from alcove.apiserver.streams.relays import IDLE_SECONDS_MAX, BodyBounds, BodyRelay, StreamRelay
from alcove.http.client import HttpClientConnection
from alcove.http.messages import HttpRequest, HttpResponse
from alcove.http.server import HttpServer

Agent = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
LOG = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ASK = b"GET /exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


ADDRESS = AgentAddress("n", "127.0.0.1", 0)


class Ended:
    def __init__(self) -> None:
        self.count = 0


@asynccontextmanager
async def relayed(
    agent: Agent, idle_seconds_max: float = IDLE_SECONDS_MAX, bounds: BodyBounds | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, Ended]]:
    """A client's connection to a server that relays to `agent`."""
    ended = Ended()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await agent(reader, writer)

    async def answer(request: HttpRequest) -> HttpResponse:
        loop = asyncio.get_running_loop()
        _, agent_connection = await loop.create_connection(
            HttpClientConnection, "127.0.0.1", listener.sockets[0].getsockname()[1]
        )
        agent_connection.begin(
            "GET", request.path, {"Host": "n", "Connection": "Upgrade", "Upgrade": "websocket"}
        )
        await agent_connection.response()

        def done() -> None:
            ended.count += 1

        if agent_connection.status == 101:
            return HttpResponse(101, StreamRelay(agent_connection, done, idle_seconds_max), b"")
        if agent_connection.status == 200:
            relay = BodyRelay(agent_connection, done, bounds=bounds)
            return HttpResponse(200, relay, b"text/plain")
        raise await error_of(agent_connection)

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with (
        asyncio.timeout(30),
        listener,
        HttpServer(lambda request: answer(request), "127.0.0.1", 0) as server,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(ASK)
        yield reader, writer, ended
        writer.close()


async def until(check: Callable[[], bool]) -> None:
    while not check():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.005)


async def test_bytes_go_both_ways_and_the_end_of_the_agent_is_the_clients() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCH + b"first")
        while (data := await reader.read(1_000)) and data != b"bye":
            writer.write(data.upper())
        writer.write(b"last words")
        writer.close()

    async with relayed(echo) as (reader, writer, ended):
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(5) == b"first"
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"HELLO"
        writer.write(b"bye")
        assert await reader.read() == b"last words"
        await until(lambda: ended.count == 1)


@pytest.mark.parametrize(
    ("body", "is_whole"), [(b"[1,2]", True), (b"[" + b"[]," * 99, False), (bytes(101), False)]
)
async def test_a_body_that_exceeds_its_bounds_is_cut_off(body: bytes, is_whole: bool) -> None:
    async def respond(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(body), 10):
            part = body[at : at + 10]
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
        writer.write(b"0\r\n\r\n")

    async with relayed(respond, bounds=BodyBounds(bytes_max=100, values_max=20)) as (reader, _, ended):
        await reader.readuntil(b"\r\n\r\n")
        if is_whole:
            assert (await reader.readuntil(b"0\r\n\r\n")).endswith(b"0\r\n\r\n")
        else:
            assert not (await reader.read()).endswith(b"0\r\n\r\n")
        await until(lambda: ended.count == 1)


async def test_the_end_of_the_client_is_the_agents() -> None:
    over = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCH)
        assert await reader.read() == b"sent before leaving"
        over.set()
        writer.close()

    async with relayed(wait) as (reader, writer, ended):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"sent before leaving")
        await writer.drain()
        writer.close()
        await over.wait()
        await until(lambda: ended.count == 1)


async def test_an_agent_is_read_no_faster_than_the_client_reads() -> None:
    size, chunk = 64 << 20, bytes(64 << 10)
    sent = 0

    async def flood(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(SWITCH)
        while sent < size:
            writer.write(chunk)
            await writer.drain()
            sent += len(chunk)
        writer.close()

    async with relayed(flood) as (reader, _writer, _):
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.5)
        assert sent < size / 2, "buffers of kernels and ours, not everything"
        received = 0
        while data := await reader.read(1 << 20):
            received += len(data)
        assert received == size


async def test_a_client_is_read_no_faster_than_the_agent_reads() -> None:
    size, chunk = 64 << 20, bytes(64 << 10)
    go, received = asyncio.Event(), 0

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        writer.write(SWITCH)
        await go.wait()
        while data := await reader.read(1 << 20):
            received += len(data)
        writer.close()

    async with relayed(slow) as (reader, writer, ended):
        await reader.readuntil(b"\r\n\r\n")
        sent = 0

        async def send() -> None:
            nonlocal sent
            while sent < size:
                writer.write(chunk)
                await writer.drain()
                sent += len(chunk)

        sending = asyncio.create_task(send())
        await asyncio.sleep(0.5)
        assert sent < size / 2
        go.set()
        await sending
        await until(lambda: received == size)
        writer.close()
        await until(lambda: ended.count == 1)


async def test_idle_relays_are_closed() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCH)
        await reader.read()
        writer.close()

    loop = asyncio.get_running_loop()
    for idle_seconds_max in (0.2, 1.0, 5.0):
        async with relayed(silent, idle_seconds_max=idle_seconds_max) as (reader, writer, ended):
            await reader.readuntil(b"\r\n\r\n")
            longest, written_at = 0.0, loop.time()
            for _ in range(4):
                await asyncio.sleep(idle_seconds_max / 2)
                writer.write(b"still here")
                longest, written_at = max(longest, loop.time() - written_at), loop.time()
            was_open = ended.count == 0
            assert await reader.read() == b""
            await until(lambda: ended.count == 1)
        if was_open:
            return
        assert longest > 0.9 * idle_seconds_max, "a relay in use was closed"
    pytest.fail("the machine was too busy for the result to be known")


async def test_a_log_comes_as_a_body_to_its_end() -> None:
    async def log(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(LOG + b"4\r\none\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.write(b"4\r\ntwo\n\r\n0\r\n\r\n")

    async with relayed(log) as (reader, writer, ended):
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head and b"chunked" in head
        assert await reader.readuntil(b"0\r\n\r\n") == b"4\r\none\n\r\n4\r\ntwo\n\r\n0\r\n\r\n"
        await until(lambda: ended.count == 1)
        writer.write(ASK)
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")


async def test_a_log_that_breaks_off_does_not_look_whole() -> None:
    async def log(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(LOG + b"4\r\none\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.close()

    async with relayed(log) as (reader, _, ended):
        await reader.readuntil(b"\r\n\r\n")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readuntil(b"0\r\n\r\n")
        assert ended.count == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b'{"kind":"Status","code":404,"reason":"NotFound","message":"no such pod"}', "no such pod"),
        (b"<html>", "responded with status 404"),
    ],
)
async def test_an_agents_error_is_returned_to_the_client(answer: bytes, message: str) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Status\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))

    listener = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with listener, asyncio.timeout(60):
        port = listener.sockets[0].getsockname()[1]
        _, agent_connection = await asyncio.get_running_loop().create_connection(
            HttpClientConnection, "127.0.0.1", port
        )
        await ask(agent_connection, ADDRESS, "GET", "/", {})
        error = await error_of(agent_connection)
        assert message in error.message
        assert isinstance(error, NotFound) or "status" in message
        agent_connection.close()


async def test_an_agent_that_hangs_up_or_talks_nonsense_is_an_error() -> None:
    for answer in (b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: " + b"a" * (1 << 20)):

        async def rude(
            _reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: bytes = answer
        ) -> None:
            writer.write(answer)
            writer.close()

        listener = await asyncio.start_server(rude, "127.0.0.1", 0)
        async with listener, asyncio.timeout(60):
            port = listener.sockets[0].getsockname()[1]
            _, agent_connection = await asyncio.get_running_loop().create_connection(
                HttpClientConnection, "127.0.0.1", port
            )
            with pytest.raises(ServiceUnavailable):
                await ask(agent_connection, ADDRESS, "GET", "/", {})
