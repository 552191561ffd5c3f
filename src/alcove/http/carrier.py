"""Many connections in one: streams of bytes that a connection carries after an upgrade, each a transport of its own.

A TLS connection takes 40 KB at either end, and a process that follows eighty resources of a server needs one for each watch. As streams
they share one. A frame is a head (`_HEAD`: what it is, the stream, a number) and, if it is data, as many bytes:

| frame  | number       | says                                                                                    |
|--------|--------------|-----------------------------------------------------------------------------------------|
| OPEN   |              | the client begins a stream; numbers of streams only grow                                |
| DATA   | its size     | bytes of the stream                                                                     |
| CREDIT | bytes        | so many bytes were read: the other side may send as many more                           |
| CLOSE  |              | the stream has ended in both directions; what was sent before is still read             |

Each side sends at most WINDOW_BYTES of a stream that the other has not read, so a stream that is not read keeps none of the others waiting,
and takes no more memory. A peer that breaks these rules loses the connection.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any, cast

from alcove.http.closing import CLOSED, FLUSH_SECONDS_MAX

log = logging.getLogger(__name__)

PROTOCOL = "alcove-streams"
"""The value of the header `Upgrade`."""
WINDOW_BYTES = 64 << 10
DATA_BYTES_MAX = 16 << 10
"""Of a frame."""
STREAMS_MAX = 1_024
"""Of one connection."""
FRAMES_AT_ONCE = 512
"""Frames of one connection that are handled before others have their turn: a peer may send tens of thousands of a byte each."""
_HEAD = struct.Struct(">BII")


class FrameKind(IntEnum):
    OPEN = 1
    DATA = 2
    CREDIT = 3
    CLOSE = 4


_KINDS = frozenset(FrameKind)


class CarrierError(Exception):
    """The peer does not follow the rules."""


MakeProtocol = Callable[[], asyncio.Protocol | None]


class StreamCarrier:
    """Implements `messages.UpgradedConnection`."""

    def __init__(self, accept: MakeProtocol | None = None) -> None:
        """`accept` makes the protocol of a stream that the peer opens, or returns None to refuse it. Without, the peer may open none."""
        self.transport: asyncio.Transport = cast(asyncio.Transport, CLOSED)
        self.received_at = 0.0
        """When anything was received last, by the clock of the event loop."""
        self._accept = accept
        self._streams: dict[int, CarriedStream] = {}
        self._last = 0
        """The number of the stream that was opened last."""
        self._partial = b""
        """What was received and is not handled yet: a frame in part, or more of them while the next turn is awaited."""
        self._is_waiting = False
        self._is_paused = False
        self._late_bytes_left = 0
        """What may still be received of streams that this side has closed."""

    @property
    def is_open(self) -> bool:
        return not self.transport.is_closing()

    def __len__(self) -> int:
        return len(self._streams)

    def open(self, protocol: asyncio.Protocol) -> None:
        """Begins a stream, of which the protocol gets the transport. Raises ConnectionError."""
        if not self.is_open or len(self._streams) >= STREAMS_MAX:
            raise ConnectionResetError("the connection that carries streams is closed, or has too many")
        self._last += 1
        stream = self._streams[self._last] = CarriedStream(self, self._last, protocol)
        self.send(FrameKind.OPEN, self._last, 0)
        protocol.connection_made(stream)

    # Called by streams

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    def send(self, kind: FrameKind, stream: int, number: int, data: bytes = b"") -> None:
        self.transport.write(_HEAD.pack(kind, stream, number) + data)

    def forget(self, stream: CarriedStream, *, is_closed_by_peer: bool) -> None:
        """Ends a stream that has nothing left to be read."""
        if self._streams.pop(stream.number, None) is not None and not is_closed_by_peer:
            self._late_bytes_left += WINDOW_BYTES + 16 * _HEAD.size
            self.send(FrameKind.CLOSE, stream.number, 0)

    # Called by the connection

    def start(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.received_at = asyncio.get_running_loop().time()

    def received(self, data: bytes) -> None:
        self.received_at = asyncio.get_running_loop().time()
        self._partial = self._partial + data if self._partial else data
        if not self._is_waiting:
            self._take_turn()

    def _take_turn(self) -> None:
        was_waiting, self._is_waiting = self._is_waiting, False
        if not self.is_open:
            return
        try:
            self._partial, is_more = self._handle(self._partial)
        except CarrierError as error:
            log.warning("connection that carries streams is invalid; closing it", extra={"error": str(error)})
            self._partial = b""
            self.transport.abort()
            return
        if is_more:
            self._is_waiting = True
            self.transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._take_turn)
        elif was_waiting and self.is_open:
            self.transport.resume_reading()

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        for number, stream in list(self._streams.items()):
            if self._is_paused:
                return
            # The next time it is the last: otherwise the first ones would leave nothing to the others.
            self._streams[number] = self._streams.pop(number)
            stream.flush()

    def stop(self) -> None:
        self.transport, self._partial = cast(asyncio.Transport, CLOSED), b""
        streams, self._streams = list(self._streams.values()), {}
        for stream in streams:
            stream.lose(ConnectionResetError("the connection that carried the stream was lost"))

    # Frames

    def _handle(self, data: bytes) -> tuple[bytes, bool]:
        """Handles complete frames; returns the rest, and whether there are more of them. Raises CarrierError."""
        at, end, left = 0, len(data), FRAMES_AT_ONCE
        while end - at >= _HEAD.size and self.is_open:
            kind, number, value = _HEAD.unpack_from(data, at)
            if kind not in _KINDS or (kind == FrameKind.DATA and not 0 < value <= DATA_BYTES_MAX):
                raise CarrierError("a frame of an unknown kind or size")
            following = at + _HEAD.size + (value if kind == FrameKind.DATA else 0)
            if following > end:
                break
            if not left:
                return data[at:], True
            left -= 1
            self._frame(FrameKind(kind), number, value, data[at + _HEAD.size : following])
            at = following
        return data[at:], False

    def _frame(self, kind: FrameKind, number: int, value: int, data: bytes) -> None:
        if kind is FrameKind.OPEN:
            self._opened(number)
            return
        stream = self._streams.get(number)
        if stream is None:
            # It was sent before the peer knew that this side has closed the stream.
            self._late_bytes_left -= _HEAD.size + len(data)
            if self._late_bytes_left < 0:
                raise CarrierError("frames of streams that are not open")
        elif kind is FrameKind.DATA:
            stream.receive(data)
        elif kind is FrameKind.CREDIT:
            stream.credited(value)
        else:
            stream.end()

    def _opened(self, number: int) -> None:
        if self._accept is None or number <= self._last or len(self._streams) >= STREAMS_MAX:
            raise CarrierError("a stream that may not be opened")
        self._last = number
        protocol = self._accept()
        if protocol is None:
            self._late_bytes_left += WINDOW_BYTES + 16 * _HEAD.size
            self.send(FrameKind.CLOSE, number, 0)
            return
        stream = self._streams[number] = CarriedStream(self, number, protocol)
        protocol.connection_made(stream)


class CarriedStream(asyncio.Transport):
    """The transport of one stream."""

    __slots__ = (
        "_carrier",
        "_credit",
        "_high",
        "_is_closing",
        "_is_ended",
        "_is_lost",
        "_is_paused",
        "_is_writer_paused",
        "_low",
        "_owed",
        "_protocol",
        "_unread",
        "_unsent",
        "number",
    )

    def __init__(self, carrier: StreamCarrier, number: int, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.number = number
        self._carrier = carrier
        self._protocol = protocol
        self._credit = WINDOW_BYTES
        """Bytes that may be sent."""
        self._unsent = b""
        self._high, self._low = WINDOW_BYTES, WINDOW_BYTES // 4
        self._is_writer_paused = False
        self._unread = bytearray()
        """Received while reading was paused, in frames of any size."""
        self._owed = 0
        """Bytes that were read, and for which the peer has got no credit."""
        self._is_paused = False
        self._is_closing = False
        self._is_ended = False
        """Whether the peer has closed it."""
        self._is_lost = False

    # Called by the carrier

    def receive(self, data: bytes) -> None:
        """Raises CarrierError."""
        if self._is_ended or len(self._unread) + self._owed + len(data) > WINDOW_BYTES:
            raise CarrierError("more data of a stream than its window")
        if self._is_closing:
            self._read(len(data))
        elif self._is_paused or self._unread:
            self._unread += data
        else:
            self._deliver(data)

    def credited(self, count: int) -> None:
        """Raises CarrierError."""
        if not 0 < count <= WINDOW_BYTES - self._credit:
            raise CarrierError("credit for what was not sent")
        self._credit += count
        self.flush()

    def end(self) -> None:
        """The peer has closed the stream."""
        self._is_ended, self._unsent = True, b""
        if not self._unread:
            self._finish()

    def lose(self, error: Exception) -> None:
        """The carrier is lost."""
        if not self._is_lost:
            self._is_lost = self._is_closing = True
            self._unread.clear()
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, error)

    def flush(self) -> None:
        """Sends what it may."""
        unsent = self._unsent
        while unsent and self._credit and not self._carrier.is_paused:
            part = unsent[: min(self._credit, DATA_BYTES_MAX)]
            unsent = unsent[len(part) :]
            self._credit -= len(part)
            self._carrier.send(FrameKind.DATA, self.number, len(part), part)
        self._unsent = unsent
        if self._is_writer_paused and len(unsent) <= self._low:
            self._is_writer_paused = False
            self._protocol.resume_writing()
        if self._is_closing and not self._unsent:
            self._finish()

    def _deliver(self, data: bytes) -> None:
        self._read(len(data))
        try:
            self._protocol.data_received(data)
        except Exception:
            log.exception("protocol of a stream failed; closing it")
            self.abort()

    def _read(self, count: int) -> None:
        self._owed += count
        if self._owed >= WINDOW_BYTES // 2 and not self._is_ended:
            self._carrier.send(FrameKind.CREDIT, self.number, self._owed)
            self._owed = 0

    def _deliver_unread(self) -> None:
        while self._unread and not self._is_paused and not self._is_closing:
            data = bytes(self._unread[:DATA_BYTES_MAX])
            del self._unread[:DATA_BYTES_MAX]
            self._deliver(data)
        if self._is_ended and not self._unread:
            self._finish()

    def _finish(self) -> None:
        if not self._is_lost:
            self._is_lost = self._is_closing = True
            self._unsent = b""
            self._unread.clear()
            self._carrier.forget(self, is_closed_by_peer=self._is_ended)
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    # Called by the protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """That of the connection that carries it; it has no socket of its own."""
        return default if name == "socket" else self._carrier.transport.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.Protocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or self._is_ended:
            return
        self._unsent += bytes(data)
        self.flush()
        if len(self._unsent) > self._high and not self._is_writer_paused:
            self._is_writer_paused = True
            self._protocol.pause_writing()

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        if self._unsent:
            # A peer that does not read would keep it open.
            asyncio.get_running_loop().call_later(FLUSH_SECONDS_MAX, self.abort)
        else:
            self._finish()

    def abort(self) -> None:
        self._finish()

    def is_closing(self) -> bool:
        return self._is_closing

    def can_write_eof(self) -> bool:
        return False

    def is_reading(self) -> bool:
        return not self._is_paused

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if self._unread:
                # Not now: the protocol may be handling data.
                asyncio.get_running_loop().call_soon(self._deliver_unread)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = WINDOW_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)


class CarrierProtocol(asyncio.Protocol):
    """Of a client's connection after the server has agreed to carry streams."""

    def __init__(self, carrier: StreamCarrier) -> None:
        self._carrier = carrier

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._carrier.start(cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        self._carrier.received(data)

    def pause_writing(self) -> None:
        self._carrier.pause()

    def resume_writing(self) -> None:
        self._carrier.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._carrier.stop()
