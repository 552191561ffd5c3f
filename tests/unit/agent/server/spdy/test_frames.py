import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.agent.server.spdy.frames import (
    CONTROL_BYTES_MAX,
    DataFrame,
    Event,
    FrameReader,
    FrameWriter,
    GoneAway,
    Opened,
    Pinged,
    ProtocolError,
    Reset,
)
from alcove.agent.server.spdy.headers import Compressor, Decompressor


def control(kind: int, body: bytes, flags: int = 0) -> bytes:
    return struct.pack(">HHI", 0x8003, kind, flags << 24 | len(body)) + body


def opening(stream: int, block: bytes, flags: int = 0) -> bytes:
    return control(1, struct.pack(">IIH", stream, 0, 0) + block, flags)


def data(stream: int, text: bytes, flags: int = 0) -> bytes:
    return struct.pack(">II", stream, flags << 24 | len(text)) + text


def all_of(reader: FrameReader, *parts: bytes) -> list[Event]:
    return [event for part in parts for event in reader.feed(part)]


def joined(events: list[Event]) -> list[Event]:
    """With the pieces of one stream's data put together."""
    found: list[Event] = []
    for event in events:
        last = found[-1] if found else None
        same = isinstance(event, DataFrame) and isinstance(last, DataFrame) and last.stream == event.stream
        if same and isinstance(event, DataFrame) and isinstance(last, DataFrame) and not last.is_ended:
            found[-1] = DataFrame(event.stream, last.data + event.data, event.is_ended)
        else:
            found.append(event)
    return found


def conversation() -> tuple[bytes, list[Event]]:
    headers = Compressor()
    wire = b"".join(
        [
            opening(1, headers.compress({"streamtype": "error"}), 1),
            opening(3, headers.compress({"streamtype": "data", "port": "80"})),
            control(4, bytes(4)),
            data(3, b"hello " * 100),
            control(6, struct.pack(">I", 7)),
            data(3, b"", 1),
            control(9, struct.pack(">II", 3, 1000)),
            control(3, struct.pack(">II", 1, 5)),
            control(7, struct.pack(">II", 3, 0)),
        ]
    )
    return wire, [
        Opened(1, {"streamtype": "error"}, True),
        Opened(3, {"streamtype": "data", "port": "80"}, False),
        DataFrame(3, b"hello " * 100, False),
        Pinged(7),
        DataFrame(3, b"", True),
        Reset(1),
        GoneAway(),
    ]


def test_a_conversation_is_understood() -> None:
    wire, events = conversation()
    assert all_of(FrameReader(), wire) == events


@given(st.lists(st.integers(0, 900), max_size=20))
def test_where_it_is_cut_makes_no_difference(cuts: list[int]) -> None:
    wire, events = conversation()
    places = [0, *sorted(min(cut, len(wire)) for cut in cuts), len(wire)]
    parts = [wire[start:end] for start, end in pairwise(places)]
    assert joined(all_of(FrameReader(), *parts)) == joined(events)


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_ignored_but_never_fatal(garbage: bytes) -> None:
    try:
        all_of(FrameReader(), garbage)
    except ProtocolError:
        pass


@pytest.mark.parametrize(
    "wire",
    [
        struct.pack(">HHI", 0x8002, 1, 0),
        control(1, b"short"),
        control(1, struct.pack(">IIH", 1, 0, 0) + b"no zlib"),
        control(2, struct.pack(">I", 1)),
        control(3, b""),
        struct.pack(">HHI", 0x8003, 1, CONTROL_BYTES_MAX + 1),
    ],
)
def test_what_no_client_sends_ends_it(wire: bytes) -> None:
    with pytest.raises(ProtocolError):
        all_of(FrameReader(), wire)


def test_a_data_frame_is_passed_on_before_it_is_whole() -> None:
    reader = FrameReader()
    assert all_of(reader, data(5, bytes(1 << 20), 1)[:108]) == [DataFrame(5, bytes(100), False)]


def test_frames_are_encoded_by_the_protocol() -> None:
    writer = FrameWriter()
    assert writer.data(3, b"abc") == b"\x00\x00\x00\x03\x00\x00\x00\x03abc"
    assert writer.data(3, b"", is_last=True) == b"\x00\x00\x00\x03\x01\x00\x00\x00"
    assert writer.ping(9) == b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x09"
    assert writer.reset(3) == b"\x80\x03\x00\x03\x00\x00\x00\x08\x00\x00\x00\x03\x00\x00\x00\x05"
    reply = writer.reply(3)
    assert reply[:4] == b"\x80\x03\x00\x02"
    assert int.from_bytes(reply[5:8], "big") == len(reply) - 8
    assert reply[8:12] == b"\x00\x00\x00\x03"
    assert Decompressor().decompress(reply[12:]) == {}
