"""Streams within one connection: complete, in order, bounded, each for itself; and peers that break the rules."""

from __future__ import annotations

import asyncio
import random
import struct
from typing import Any, cast

import pytest

from alcove.http import carrier as carriers
from alcove.http.carrier import DATA_BYTES_MAX, WINDOW_BYTES, CarriedStream, FrameKind, StreamCarrier
from alcove.testing.loop_holds import LoopHolds


class Wire(asyncio.Transport):
    """The transport of one carrier. What it writes arrives at the other in parts of any size, when the loop runs."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.peer = cast(StreamCarrier, None)
        self.owner = cast(StreamCarrier, None)
        self.sent = 0
        self.is_reading_paused = False
        self._chance = chance
        self._data = b""
        self._is_closed = False

    def write(self, data: Any) -> None:
        self.sent += len(data)
        if not self._data:
            asyncio.get_running_loop().call_soon(self._arrive)
        self._data += bytes(data)

    def _arrive(self) -> None:
        if self._is_closed:
            return
        size = self._chance.randint(1, len(self._data))
        part, self._data = self._data[:size], self._data[size:]
        self.peer.received(part)
        if self._data:
            asyncio.get_running_loop().call_soon(self._arrive)

    def is_closing(self) -> bool:
        return self._is_closed

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": "somebody", "socket": "its own"}.get(name, default)

    def abort(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            asyncio.get_running_loop().call_soon(self.owner.stop)


def _frame(kind: FrameKind, stream: int, number: int, data: bytes = b"") -> bytes:
    return struct.pack(">BII", kind, stream, number) + data


class Recorder(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport = cast(CarriedStream, None)
        self.data = b""
        self.is_held = False
        self.lost: list[Exception | None] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(CarriedStream, transport)

    def data_received(self, data: bytes) -> None:
        self.data += data

    def pause_writing(self) -> None:
        self.is_held = True

    def resume_writing(self) -> None:
        self.is_held = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Pair:
    """A client's carrier and a server's, which accepts streams."""

    def __init__(self, seed: int = 1) -> None:
        self.accepted: list[Recorder] = []
        self.client, self.server = StreamCarrier(), StreamCarrier(self._accept)
        chance = random.Random(seed)
        self.up, self.down = Wire(chance), Wire(chance)
        self.up.owner, self.up.peer = self.client, self.server
        self.down.owner, self.down.peer = self.server, self.client
        self.client.start(self.up)
        self.server.start(self.down)

    def _accept(self) -> asyncio.Protocol | None:
        self.accepted.append(Recorder())
        return self.accepted[-1]

    async def open(self) -> tuple[Recorder, Recorder]:
        """Both ends of a stream."""
        opened = Recorder()
        self.client.open(opened)
        count = len(self.accepted)
        await until(lambda: len(self.accepted) > count)
        return opened, self.accepted[-1]


async def until(check: Any) -> None:
    async with asyncio.timeout(10):
        while not check():  # noqa: ASYNC110 - the wire has no end to wait for
            await asyncio.sleep(0)


async def settled(pair: Pair) -> None:
    """Nothing is under way."""
    await until(lambda: not pair.up._data and not pair.down._data)


@pytest.mark.parametrize("seed", range(5))
async def test_every_stream_gets_its_bytes_in_order(seed: int) -> None:
    pair, chance = Pair(seed), random.Random(seed)
    streams = [await pair.open() for _ in range(8)]
    expected: dict[Recorder, bytes] = {}
    for _ in range(200):
        ends = list(chance.choice(streams))
        chance.shuffle(ends)
        data = chance.randbytes(chance.randint(1, 3 * DATA_BYTES_MAX))
        ends[0].transport.write(data)
        expected[ends[1]] = expected.get(ends[1], b"") + data
        await asyncio.sleep(0)
    for end, data in expected.items():
        await until(lambda end=end, data=data: len(end.data) >= len(data))
        assert end.data == data


async def test_a_stream_that_is_not_read_is_bounded_and_keeps_no_other_waiting() -> None:
    pair = Pair()
    (slow, slow_end), (quick, quick_end) = await pair.open(), await pair.open()
    slow_end.transport.pause_reading()
    slow.transport.write(b"x" * (10 * WINDOW_BYTES))
    await settled(pair)
    assert slow.is_held and slow.transport.get_write_buffer_size() == 9 * WINDOW_BYTES
    assert slow_end.data == b"" and pair.up.sent < 2 * WINDOW_BYTES
    quick.transport.write(b"hello")
    await until(lambda: quick_end.data == b"hello")
    slow_end.transport.resume_reading()
    await until(lambda: len(slow_end.data) == 10 * WINDOW_BYTES)
    assert not slow.is_held


async def test_what_was_sent_before_the_end_is_read() -> None:
    pair = Pair()
    one, other = await pair.open()
    other.transport.pause_reading()
    one.transport.write(b"last words")
    one.transport.close()
    await settled(pair)
    assert one.lost == [None] and other.lost == []
    other.transport.resume_reading()
    await until(lambda: other.lost == [None])
    assert other.data == b"last words" and not len(pair.client) and not len(pair.server)


async def test_a_stream_closes_after_what_it_has_written_unless_nobody_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair()
    (one, other), (stuck, unread) = await pair.open(), await pair.open()
    one.transport.write(b"x" * (3 * WINDOW_BYTES))
    one.transport.close()
    await until(lambda: other.lost == [None])
    assert len(other.data) == 3 * WINDOW_BYTES
    monkeypatch.setattr(carriers, "FLUSH_SECONDS_MAX", 0.01)
    unread.transport.pause_reading()
    stuck.transport.write(b"x" * (3 * WINDOW_BYTES))
    stuck.transport.close()
    await until(lambda: stuck.lost == [None])


async def test_a_lost_connection_ends_all_its_streams() -> None:
    pair = Pair()
    ends = [*await pair.open(), *await pair.open()]
    pair.up.abort()
    pair.down.abort()
    await until(lambda: all(end.lost for end in ends))
    assert all(isinstance(end.lost[0], ConnectionResetError) for end in ends)
    with pytest.raises(ConnectionResetError):
        pair.client.open(Recorder())


async def test_a_connection_that_cannot_send_holds_what_streams_write() -> None:
    pair = Pair()
    one, other = await pair.open()
    pair.client.pause()
    before = pair.up.sent
    one.transport.write(b"x" * (WINDOW_BYTES + 1))
    assert pair.up.sent == before and one.is_held
    pair.client.resume()
    await until(lambda: len(other.data) == WINDOW_BYTES + 1)


async def test_streams_share_a_connection_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time that it can send, another stream is the first."""
    pair = Pair()
    ends = [await pair.open() for _ in range(3)]
    pair.client.pause()
    for one, _ in ends:
        one.transport.write(b"x" * WINDOW_BYTES)
    write = pair.up.write

    def write_one(data: Any) -> None:
        write(data)
        pair.client.pause()

    monkeypatch.setattr(pair.up, "write", write_one)
    for _ in range(6):
        pair.client.resume()
    await settled(pair)
    assert [len(end.data) for _, end in ends] == [2 * DATA_BYTES_MAX] * 3


async def test_there_are_not_too_many_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carriers, "STREAMS_MAX", 2)
    pair = Pair()
    for _ in range(2):
        await pair.open()
    with pytest.raises(ConnectionResetError):
        pair.client.open(Recorder())
    pair.client.send(FrameKind.OPEN, 9, 0)
    await until(pair.down.is_closing)


def frame(kind: int, stream: int, number: int, data: bytes = b"") -> bytes:
    return struct.pack(">BII", kind, stream, number) + data


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(frame(9, 1, 0), id="unknown kind"),
        pytest.param(frame(FrameKind.DATA, 1, 0), id="no data"),
        pytest.param(frame(FrameKind.DATA, 1, DATA_BYTES_MAX + 1), id="a large frame"),
        pytest.param(frame(FrameKind.OPEN, 2, 0), id="a server that opens streams"),
        pytest.param(frame(FrameKind.CREDIT, 1, 0), id="no credit"),
        pytest.param(frame(FrameKind.CREDIT, 1, 1), id="credit for nothing"),
        pytest.param(frame(FrameKind.DATA, 7, 1, b"x"), id="a stream that never was"),
        pytest.param(frame(FrameKind.DATA, 1, DATA_BYTES_MAX, b"x" * DATA_BYTES_MAX) * 5, id="no window"),
        pytest.param(frame(FrameKind.CLOSE, 1, 0) + frame(FrameKind.DATA, 1, 1, b"x"), id="after its end"),
    ],
)
async def test_a_server_that_breaks_the_rules_loses_the_connection(sent: bytes) -> None:
    pair = Pair()
    opened, _ = await pair.open()
    opened.transport.pause_reading()
    pair.client.received(sent)
    assert pair.up.is_closing()
    await until(lambda: opened.lost)


async def test_what_comes_for_a_closed_stream_is_bounded() -> None:
    pair = Pair()
    opened, _ = await pair.open()
    opened.transport.abort()
    late = frame(FrameKind.DATA, 1, DATA_BYTES_MAX, b"x" * DATA_BYTES_MAX)
    pair.client.received(late)
    assert not pair.up.is_closing(), "it was sent before the server knew"
    for _ in range(WINDOW_BYTES // DATA_BYTES_MAX):
        pair.client.received(late)
    assert pair.up.is_closing()


async def test_a_stream_has_the_peer_of_its_connection_and_no_socket() -> None:
    pair = Pair()
    one, _ = await pair.open()
    assert one.transport.get_extra_info("peername") == "somebody"
    assert one.transport.get_extra_info("socket") is None


async def test_frames_of_a_byte_each_hold_the_loop_no_longer_than_others() -> None:
    """What a stream had not read was delivered frame by frame, each time moving all others: seconds for 64 KiB."""
    wire = Wire(random.Random(1))
    client = wire.owner = wire.peer = StreamCarrier()
    client.start(wire)
    wire.write = lambda data: None  # type: ignore[method-assign]
    readers = [Recorder() for _ in range(4)]
    for reader in readers:
        client.open(reader)
    readers[0].transport.pause_reading()
    frames = b"".join(
        _frame(FrameKind.DATA, number, 1, b"x") for _ in range(WINDOW_BYTES) for number in range(1, 5)
    )
    async with LoopHolds() as holds:
        for at in range(0, len(frames), 1 << 16):
            while wire.is_reading_paused:  # noqa: ASYNC110 - as a transport does
                await asyncio.sleep(0)
            client.received(frames[at : at + (1 << 16)])
        while wire.is_reading_paused:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert [len(each.data) for each in readers] == [0, *[WINDOW_BYTES] * 3]
        readers[0].transport.resume_reading()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert readers[0].data == b"x" * WINDOW_BYTES and client.is_open
    assert holds.longest_ms < 15
