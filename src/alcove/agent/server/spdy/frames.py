"""SPDY/3.1 frames to events and back, without I/O.

Data frames are passed on in the pieces in which they arrive, so that a long frame need not be buffered. Flow
control windows are ignored: the library that Kubernetes clients use ignores them too, and TCP has flow
control.
"""

from collections.abc import Iterator
from struct import Struct as Packing

from msgspec import Struct

from alcove.agent.server.spdy.headers import BadHeaders, Compressor, Decompressor

CONTROL_BYTES_MAX = 64 << 10
DATA_BYTES_MAX = (1 << 24) - 1

_VERSION = 3
_SYN_REPLY, _RST_STREAM, _PING = 2, 3, 6
_FIN = 1
_HEAD = Packing(">IBBH")
_HEAD_BYTES = 8
_STREAM_ID = 0x7FFF_FFFF


class ProtocolError(Exception):
    """The peer violated SPDY/3.1; the connection must be closed."""


class Opened(Struct, frozen=True):
    """The peer opened a stream. `is_ended`: it will send nothing on it."""

    stream: int
    headers: dict[str, str]
    is_ended: bool


class DataFrame(Struct, frozen=True):
    """Data of a stream. `is_ended`: this is the last."""

    stream: int
    data: bytes
    is_ended: bool


class Reset(Struct, frozen=True):
    """The stream is closed in both directions."""

    stream: int


class Pinged(Struct, frozen=True):
    number: int


class GoneAway(Struct, frozen=True):
    """The peer will open no more streams."""


Event = Opened | DataFrame | Reset | Pinged | GoneAway


class FrameReader:
    """Parses received bytes into events."""

    def __init__(self) -> None:
        self._headers = Decompressor()
        self._unread = b""
        self._stream = 0
        self._data_remaining = 0
        self._is_last_data = False

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events completed by `data`. The iterator must be consumed to its end. Raises ProtocolError."""
        self._unread += data
        while True:
            if self._data_remaining:
                if not self._unread:
                    return
                yield self._piece()
                continue
            if len(self._unread) < _HEAD_BYTES:
                return
            first, flags, high, low = _HEAD.unpack_from(self._unread)
            length = high << 16 | low
            if first >> 31:
                if length > CONTROL_BYTES_MAX:
                    raise ProtocolError(f"a control frame has more than {CONTROL_BYTES_MAX} bytes")
                if len(self._unread) < _HEAD_BYTES + length:
                    return
                body = self._unread[_HEAD_BYTES : _HEAD_BYTES + length]
                self._unread = self._unread[_HEAD_BYTES + length :]
                event = self._control(first, flags, body)
                if event is not None:
                    yield event
            else:
                self._unread = self._unread[_HEAD_BYTES:]
                self._stream, self._data_remaining, self._is_last_data = first, length, bool(flags & _FIN)
                if not length:
                    yield DataFrame(first, b"", self._is_last_data)

    def _piece(self) -> DataFrame:
        piece, self._unread = self._unread[: self._data_remaining], self._unread[self._data_remaining :]
        self._data_remaining -= len(piece)
        return DataFrame(self._stream, piece, self._is_last_data and not self._data_remaining)

    def _control(self, first: int, flags: int, body: bytes) -> Event | None:
        version, kind = first >> 16 & 0x7FFF, first & 0xFFFF
        if version != _VERSION:
            raise ProtocolError(f"unsupported SPDY version {version}")
        match kind:
            case 1:
                return self._opened(flags, body)
            case 3:
                return Reset(_number(body) & _STREAM_ID)
            case 6:
                return Pinged(_number(body))
            case 7:
                return GoneAway()
            case 2 | 8:
                raise ProtocolError("a client must not send HEADERS or SYN_REPLY frames")
        return None  # Settings and windows.

    def _opened(self, flags: int, body: bytes) -> Opened:
        if len(body) < 10:
            raise ProtocolError("a stream is opened with too few bytes")
        try:
            headers = self._headers.decompress(body[10:])
        except BadHeaders as error:
            raise ProtocolError(str(error)) from error
        return Opened(_number(body) & _STREAM_ID, headers, bool(flags & _FIN))


class FrameWriter:
    """Serializes frames."""

    def __init__(self) -> None:
        self._headers = Compressor()

    def reply(self, stream: int) -> bytes:
        """A SYN_REPLY, which accepts a stream."""
        return _control(_SYN_REPLY, stream.to_bytes(4, "big") + self._headers.compress({}))

    def data(self, stream: int, data: bytes, *, is_last: bool = False) -> bytes:
        assert len(data) <= DATA_BYTES_MAX
        return _frame(stream, _FIN if is_last else 0, data)

    def reset(self, stream: int, status: int = 5) -> bytes:
        """Status 5: cancelled; 3: refused."""
        return _control(_RST_STREAM, stream.to_bytes(4, "big") + status.to_bytes(4, "big"))

    def ping(self, number: int) -> bytes:
        """Pings of the server have even numbers. A client's ping is answered by the same frame."""
        return _control(_PING, number.to_bytes(4, "big"))


def _frame(first: int, flags: int, body: bytes) -> bytes:
    return _HEAD.pack(first, flags, len(body) >> 16, len(body) & 0xFFFF) + body


def _control(kind: int, body: bytes, flags: int = 0) -> bytes:
    return _frame(1 << 31 | _VERSION << 16 | kind, flags, body)


def _number(body: bytes) -> int:
    if len(body) < 4:
        raise ProtocolError("a control frame is too short")
    return int.from_bytes(body[:4], "big")
