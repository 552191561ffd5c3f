"""Calls over our HTTP/2, against a server that is made of another implementation (`h2`) and does what servers may do."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event, RequestReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes, Settings

from alcove.store import http2_connection
from alcove.store.grpc_channel import GrpcChannel, GrpcError, GrpcStatus

SECONDS = 20.0
OK = [("grpc-status", "0"), ("grpc-message", "")]
RESPONSE = [(":status", "200"), ("content-type", "application/grpc")]


def packed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


class Server(asyncio.Protocol):
    """Answers each request by `answer(server, stream, body)`."""

    def __init__(
        self, answer: Callable[["Server", int, bytes], None], made: list["Server"], streams: int
    ) -> None:
        self.h2 = H2Connection(H2Configuration(client_side=False))
        initial = {SettingCodes.MAX_CONCURRENT_STREAMS: streams}
        self.h2.local_settings = Settings(client=False, initial_values=initial)
        self.answer, self.streams = answer, streams
        self.bodies: dict[int, bytes] = {}
        self.open_most = 0
        self.resets: list[int] = []
        self.requests: dict[bytes, bytes] = {}
        made.append(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.h2.initiate_connection()
        self.send()

    def send(self) -> None:
        self.transport.write(self.h2.data_to_send())

    def data_received(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            self.handle(event)
        self.send()

    def handle(self, event: Event) -> None:
        match event:
            case RequestReceived():
                self.requests = {bytes(name): bytes(value) for name, value in event.headers}
                self.bodies[event.stream_id] = b""
                self.open_most = max(self.open_most, len(self.bodies))
            case DataReceived():
                self.bodies[event.stream_id] += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case StreamEnded():
                self.answer(self, event.stream_id, self.bodies.pop(event.stream_id))
            case StreamReset():
                self.resets.append(event.stream_id)

    def reply(self, stream: int, message: bytes, trailers: list[tuple[str, str]] | None = None) -> None:
        self.h2.send_headers(stream, RESPONSE)
        for at in range(0, len(message), 10_000):
            self.h2.send_data(stream, message[at : at + 10_000])
        self.h2.send_headers(stream, trailers or OK, end_stream=True)


def echo(server: Server, stream: int, body: bytes) -> None:
    server.reply(stream, body)


@asynccontextmanager
async def served(
    answer: Callable[[Server, int, bytes], None] = echo, streams: int = 100
) -> AsyncIterator[tuple[GrpcChannel, list[Server]]]:
    made: list[Server] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Server(answer, made, streams), "127.0.0.1", 0)
    channel = GrpcChannel(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield channel, made
    finally:
        await channel.close()
        server.close()


async def test_calls_share_a_connection_and_get_their_own_responses() -> None:
    async with served() as (channel, made):
        bodies = [b"x" * size for size in (0, 1, 100, 16_384, 70_000, 900_000)]
        found = await asyncio.gather(*(channel.call("/a/B", body, SECONDS) for body in bodies))
        assert found == bodies and len(made) == 1
        assert made[0].requests[b":path"] == b"/a/B" and made[0].requests[b"te"] == b"trailers"


async def test_no_more_streams_are_open_than_the_server_allows() -> None:
    tasks = []

    def answer(server: Server, stream: int, body: bytes) -> None:
        server.bodies[-stream] = b""  # Still open until it is answered.
        tasks.append(asyncio.create_task(finish(server, stream, body)))

    async def finish(server: Server, stream: int, body: bytes) -> None:
        await asyncio.sleep(0)
        del server.bodies[-stream]
        server.reply(stream, body)
        server.send()

    async with served(answer, streams=3) as (channel, made):
        await channel.call("/a/B", b"first", SECONDS)
        found = await asyncio.gather(*(channel.call("/a/B", b"%d" % number, SECONDS) for number in range(40)))
        assert found == [b"%d" % number for number in range(40)]
        assert made[0].open_most <= 3


async def test_an_error_has_its_code_and_text_and_leaves_the_connection_usable() -> None:
    def refuse(server: Server, stream: int, body: bytes) -> None:
        if body == packed(b"bad"):
            server.reply(stream, b"", [("grpc-status", "11"), ("grpc-message", "100%25 compacted")])
        else:
            server.reply(stream, body)

    async with served(refuse) as (channel, made):
        with pytest.raises(GrpcError, match="100% compacted") as caught:
            await channel.call("/a/B", b"bad", SECONDS)
        assert caught.value.code == GrpcStatus.OUT_OF_RANGE and caught.value.is_processed
        assert await channel.call("/a/B", b"good", SECONDS) == b"good" and len(made) == 1


@pytest.mark.parametrize(
    ("code", "is_processed"), [(ErrorCodes.REFUSED_STREAM, False), (ErrorCodes.CANCEL, True)]
)
async def test_only_a_refused_stream_is_known_not_to_be_processed(
    code: ErrorCodes, is_processed: bool
) -> None:
    async with served(lambda server, stream, _: server.h2.reset_stream(stream, code)) as (channel, _):
        with pytest.raises(GrpcError) as caught:
            await channel.call("/a/B", b"", SECONDS)
        assert caught.value.is_processed is is_processed


async def test_a_server_that_goes_away_ends_what_it_has_begun_and_gets_no_more() -> None:
    def answer(server: Server, stream: int, body: bytes) -> None:
        server.h2.close_connection(last_stream_id=stream)
        server.send()
        server.transport.write(b"")
        server.transport.close()

    async with served(answer) as (channel, made):
        for _ in range(2):
            with pytest.raises(GrpcError):
                await channel.call("/a/B", b"", SECONDS)
        assert len(made) == 2


async def test_a_call_that_is_not_answered_in_time_is_cancelled_at_the_server() -> None:
    async with served(lambda *_: None) as (channel, made):
        with pytest.raises(GrpcError) as caught:
            await channel.call("/a/B", b"", 0.05)
        assert caught.value.code == GrpcStatus.DEADLINE_EXCEEDED and caught.value.is_processed
        async with asyncio.timeout(SECONDS):
            while not made[0].resets:  # noqa: ASYNC110 - the server runs in the same loop
                await asyncio.sleep(0)


async def test_a_silent_server_is_noticed_by_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2_connection, "PING_SECONDS", 0.05)
    monkeypatch.setattr(http2_connection, "PONG_SECONDS_MAX", 0.05)

    def fall_silent(server: Server, stream: int, body: bytes) -> None:
        server.transport.pause_reading()

    async with served(fall_silent) as (channel, _):
        with pytest.raises(GrpcError, match="not answered") as caught:
            await channel.call("/a/B", b"", SECONDS)
        assert caught.value.is_processed


async def test_a_server_that_is_not_there_has_not_processed_the_call() -> None:
    channel = GrpcChannel("127.0.0.1:1")
    with pytest.raises(GrpcError, match="failed to connect") as caught:
        await channel.call("/a/B", b"", SECONDS)
    assert not caught.value.is_processed
    await channel.close()


async def test_a_stream_that_is_not_read_makes_the_server_wait() -> None:
    sent = 0

    class Streaming(Server):
        def handle(self, event: Event) -> None:
            if isinstance(event, RequestReceived):
                self.h2.send_headers(event.stream_id, RESPONSE)
            super().handle(event)
            self.push()

        def push(self) -> None:
            nonlocal sent
            while self.bodies and self.h2.local_flow_control_window(1) > 20_000:
                self.h2.send_data(1, packed(bytes(10_000)))
                sent += 10_000
                self.send()

    made: list[Server] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Streaming(echo, made, 10), "127.0.0.1", 0)
    channel = GrpcChannel(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    stream = await channel.stream("/a/Watch", b"go")
    async with asyncio.timeout(SECONDS):
        assert await stream.read() == bytes(10_000)
        while sent < http2_connection.STREAM_WINDOW_BYTES - 100_000:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        held = sent
        assert held <= http2_connection.STREAM_WINDOW_BYTES + 2 * http2_connection.CREDIT_BYTES
        while sent < held + (32 << 20):
            assert await stream.read() == bytes(10_000)
    stream.cancel()
    await channel.close()
    server.close()


@pytest.mark.parametrize(
    "frame",
    [
        b"\x00\xff\xff\x00\x00\x00\x00\x00\x01" + bytes(0xFFFF),
        b"\x00\x00\x01\x01\x04\x00\x00\x00\x01\xff",
        b"\x00\x00\x01\x09\x04\x00\x00\x00\x01\x00",
        b"\x00\x00\x01\x00\x08\x00\x00\x00\x01\x09",
        b"\x00\x00\x04\x05\x04\x00\x00\x00\x01\x00\x00\x00\x02",
    ],
    ids=["too long", "bad header block", "no headers to continue", "padding", "push"],
)
async def test_what_violates_http2_ends_the_connection(frame: bytes) -> None:
    async with served(lambda server, *_: server.transport.write(frame)) as (channel, _):
        with pytest.raises(GrpcError, match="violates HTTP/2"):
            await channel.call("/a/B", b"", SECONDS)
