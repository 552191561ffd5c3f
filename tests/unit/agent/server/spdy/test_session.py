import asyncio
import struct
from collections import deque

import pytest

from alcove.agent.server import pings
from alcove.agent.server.inbox import BYTES_MAX
from alcove.agent.server.spdy.headers import Compressor
from alcove.agent.server.spdy.session import STREAMS_MAX, SpdySession, SpdyStream


class Pipe:
    """A `Wire` whose other end is the test."""

    def __init__(self) -> None:
        self.sent = b""
        self._incoming: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self.headers = Compressor()

    def say(self, data: bytes) -> None:
        self._incoming.append(data)
        self._changed.set()

    def open(self, stream: int, **headers: str) -> None:
        block = self.headers.compress(headers)
        self.say(struct.pack(">HHIIIH", 0x8003, 1, 10 + len(block), stream, 0, 0) + block)

    def data(self, stream: int, data: bytes, flags: int = 0) -> None:
        self.say(struct.pack(">II", stream, flags << 24 | len(data)) + data)

    async def read(self) -> bytes:
        while not self._incoming:
            self._changed.clear()
            await self._changed.wait()
        return self._incoming.popleft()

    async def write(self, data: bytes) -> None:
        self.sent += data


async def accepted(session: SpdySession) -> SpdyStream:
    async with asyncio.timeout(60):
        stream = await session.accept()
    assert stream is not None
    return stream


async def test_streams_are_accepted_read_and_written() -> None:
    pipe = Pipe()
    session = SpdySession(pipe)
    running = asyncio.create_task(session.run())
    pipe.open(1, streamtype="data")
    stream = await accepted(session)
    assert stream.headers == {"streamtype": "data"}
    assert pipe.sent[:4] == b"\x80\x03\x00\x02"
    pipe.data(1, b"hello")
    pipe.data(1, b" world", 1)
    assert [await stream.read(), await stream.read(), await stream.read()] == [b"hello", b" world", b""]
    pipe.sent = b""
    await stream.write(b"back")
    await stream.close()
    await stream.close()
    assert pipe.sent == b"\x00\x00\x00\x01\x00\x00\x00\x04back\x00\x00\x00\x01\x01\x00\x00\x00"
    with pytest.raises(ConnectionError):
        await stream.write(b"more")
    pipe.say(b"")
    await running
    assert await session.accept() is None


async def test_data_without_a_reader_pauses_the_session() -> None:
    pipe = Pipe()
    session = SpdySession(pipe)
    running = asyncio.create_task(session.run())
    pipe.open(1)
    stream = await accepted(session)
    pipe.data(1, bytes(BYTES_MAX + 1))
    pipe.open(3)
    for _ in range(5):
        await asyncio.sleep(0)
    other = asyncio.create_task(session.accept())
    await asyncio.sleep(0.01)
    assert not other.done()
    assert len(await stream.read()) == BYTES_MAX + 1
    async with asyncio.timeout(60):
        assert (await other) is not None
    running.cancel()


async def test_a_ping_is_answered() -> None:
    pipe = Pipe()
    running = asyncio.create_task(SpdySession(pipe).run())
    ping = struct.pack(">HHII", 0x8003, 6, 4, 5)
    pipe.say(ping)
    pipe.say(b"")
    await running
    assert pipe.sent == ping


async def test_a_client_whose_input_is_not_read_is_pinged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pings, "PING_SECONDS", 0.01)
    own = struct.pack(">HHII", 0x8003, 6, 4, 2)
    pipe = Pipe()
    session = SpdySession(pipe)
    running = asyncio.create_task(session.run())
    pipe.open(1)
    stream = await accepted(session)
    await asyncio.sleep(0.05)
    assert own not in pipe.sent
    pipe.data(1, bytes(BYTES_MAX + 1))
    async with asyncio.timeout(60):
        while own not in pipe.sent:  # noqa: ASYNC110 - there is no callback for sent data
            await asyncio.sleep(0.001)
    await stream.read()
    sent = pipe.sent
    # The client's answer is not answered in turn.
    pipe.say(own)
    pipe.say(b"")
    await running
    assert pipe.sent == sent


async def test_a_reset_ends_the_stream_both_ways() -> None:
    pipe = Pipe()
    session = SpdySession(pipe)
    running = asyncio.create_task(session.run())
    pipe.open(1)
    stream = await accepted(session)
    pipe.say(struct.pack(">HHIII", 0x8003, 3, 8, 1, 5))
    assert await stream.read() == b""
    with pytest.raises(ConnectionError):
        await stream.write(b"more")
    running.cancel()


@pytest.mark.parametrize("numbers", [(3, 1), (1, 1), (2,)])
async def test_numbers_out_of_order_end_the_session(numbers: tuple[int, ...]) -> None:
    pipe = Pipe()
    session = SpdySession(pipe)
    for number in numbers:
        pipe.open(number)
    async with asyncio.timeout(60):
        await session.run()


async def test_there_are_so_many_streams_and_no_more() -> None:
    pipe = Pipe()
    session = SpdySession(pipe)
    for number in range(STREAMS_MAX + 1):
        pipe.open(2 * number + 1)
    pipe.say(b"")
    await session.run()
    assert pipe.sent.count(b"\x80\x03\x00\x02") == STREAMS_MAX
    refused = struct.pack(">HHIII", 0x8003, 3, 8, 2 * STREAMS_MAX + 1, 3)
    assert pipe.sent.endswith(refused)
