"""SPDY/3.1 frames to events and back, without I/O.

Data frames are passed on in the pieces they arrive in, so that no frame, however long it says it is, has to be
kept. Windows are not counted: the library that Kubernetes' clients use does not, and the connection below has
its own.
"""

from collections.abc import Iterator
from struct import Struct as Packing

from msgspec import Struct

from alcove.agent.server.spdy.headers import BadHeaders, Compressor, Decompressor

CONTROL_BYTES_MAX = 64 << 10
DATA_BYTES_MAX = (1 << 24) - 1

_VERSION = 3
_SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 2, 3, 6, 7
_FIN = 1
_HEAD = Packing(">IBBH")
_HEAD_BYTES = 8
_STREAM_ID = 0x7FFF_FFFF


class ProtocolError(Exception):
    """The other side does not speak SPDY/3.1; the connection is over."""


class Opened(Struct, frozen=True):
    """The other side opened a stream; `is_ended`: and will send nothing on it."""

    stream: int
    headers: dict[str, str]
    is_ended: bool


class DataFrame(Struct, frozen=True):
    """Something for a stream; `is_ended`: its last."""

    stream: int
    data: bytes
    is_ended: bool


class Reset(Struct, frozen=True):
    """The stream is over, both ways."""

    stream: int


class Pinged(Struct, frozen=True):
    number: int


class GoneAway(Struct, frozen=True):
    """The other side opens no streams any more."""


Event = Opened | DataFrame | Reset | Pinged | GoneAway


class FrameReader:
    """Bytes in, events out."""

    def __init__(self) -> None:
        self._headers = Decompressor()
        self._unread = b""
        self._stream = 0
        self._data_left = 0
        self._data_ends = False

    def feed(self, data: bytes) -> Iterator[Event]:
        """To be gone through to its end. Raises ProtocolError."""
        self._unread += data
        while True:
            if self._data_left:
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
                self._stream, self._data_left, self._data_ends = first, length, bool(flags & _FIN)
                if not length:
                    yield DataFrame(first, b"", self._data_ends)

    def _piece(self) -> DataFrame:
        piece, self._unread = self._unread[: self._data_left], self._unread[self._data_left :]
        self._data_left -= len(piece)
        return DataFrame(self._stream, piece, self._data_ends and not self._data_left)

    def _control(self, first: int, flags: int, body: bytes) -> Event | None:
        version, kind = first >> 16 & 0x7FFF, first & 0xFFFF
        if version != _VERSION:
            raise ProtocolError(f"SPDY version {version} is not spoken here")
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
                raise ProtocolError("headers and replies are not a client's to send")
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
    """What to say, as bytes."""

    def __init__(self) -> None:
        self._headers = Compressor()

    def reply(self, stream: int) -> bytes:
        """Accepts a stream that was opened."""
        return _control(_SYN_REPLY, stream.to_bytes(4, "big") + self._headers.compress({}))

    def data(self, stream: int, data: bytes, *, is_last: bool = False) -> bytes:
        assert len(data) <= DATA_BYTES_MAX
        return _frame(stream, _FIN if is_last else 0, data)

    def reset(self, stream: int, why: int = 5) -> bytes:
        """5: cancelled; 3: refused."""
        return _control(_RST_STREAM, stream.to_bytes(4, "big") + why.to_bytes(4, "big"))

    def ping(self, number: int) -> bytes:
        """A ping of ours has an even number; one of the client's is answered by the same frame."""
        return _control(_PING, number.to_bytes(4, "big"))

    def go_away(self, last_stream: int) -> bytes:
        return _control(_GOAWAY, last_stream.to_bytes(4, "big") + bytes(4))


def _frame(first: int, flags: int, body: bytes) -> bytes:
    return _HEAD.pack(first, flags, len(body) >> 16, len(body) & 0xFFFF) + body


def _control(kind: int, body: bytes, flags: int = 0) -> bytes:
    return _frame(1 << 31 | _VERSION << 16 | kind, flags, body)


def _number(body: bytes) -> int:
    if len(body) < 4:
        raise ProtocolError("a control frame is too short")
    return int.from_bytes(body[:4], "big")
