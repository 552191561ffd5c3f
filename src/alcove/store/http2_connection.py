"""The client's side of HTTP/2, as far as gRPC calls to etcd need it: one connection with many streams.

gRPC's own library costs 0.2 ms of CPU for each call and each event, in a thread that competes with the event loop.
The header table is set to size 0: header blocks then mean the same whenever they come, and are decoded once. What the
server may send ahead is bounded for streams whose reader is slow.
"""

import asyncio
from asyncio import Future, TimerHandle
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Protocol, cast

from hpack import Decoder, HPACKError

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 8, 9
END_STREAM, END_HEADERS, PADDED, PRIORITY, ACK = 0x1, 0x4, 0x8, 0x20, 0x1
TABLE_SIZE, ENABLE_PUSH, CONCURRENT_STREAMS, INITIAL_WINDOW, FRAME_SIZE = 1, 2, 3, 4, 5
REFUSED, CANCEL = 7, 8

FRAME_BYTES_MAX = 1 << 14
"""Of frames that are received; HTTP/2's default."""
HEADER_BYTES_MAX = 1 << 16
STREAM_WINDOW_BYTES = 16 << 20
CONNECTION_WINDOW_BYTES = (1 << 31) - 1
CREDIT_BYTES = 1 << 20
"""Received bytes are credited to the server in parts of at least this size."""
LAST_STREAM_ID = (1 << 31) - 3
BLOCKS_MAX = 256
"""Decoded header blocks that are kept."""
PING_SECONDS, PONG_SECONDS_MAX = 10.0, 5.0

_frame_head = Struct(">HBBBI")
_number = Struct(">I")
_setting = Struct(">HI")

Headers = dict[bytes, bytes]


class Http2Error(Exception):
    """The connection or stream ended. `is_processed` is False if the server has certainly not acted on the request."""

    def __init__(self, text: str, *, is_processed: bool = True) -> None:
        super().__init__(text)
        self.is_processed = is_processed


class Http2Stream(Protocol):
    """What receives a stream's events. The connection forgets the stream before it calls `ended` or `failed`."""

    def received(self, data: bytes) -> bool:
        """Returns whether the server may send as much again; if not, `Http2Connection.resume` says so later."""
        ...

    def ended(self, headers: Headers) -> None:
        """The last headers that were received: the trailers, if there were any."""
        ...

    def failed(self, error: Http2Error) -> None: ...


class _Sending:
    """One stream: what it still has to send, and how much either side may."""

    __slots__ = ("credit", "handler", "headers", "is_last", "rest", "window", "withheld")

    def __init__(self, handler: Http2Stream, window: int) -> None:
        self.handler = handler
        self.window = window
        self.rest = b""
        self.is_last = False
        self.headers: Headers = {}
        self.credit = 0
        self.withheld = 0


class Http2Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._streams: dict[int, _Sending] = {}
        self._next_id = 1
        self._buffer = b""
        self._block: tuple[int, int, bytes] | None = None
        """Stream, flags and bytes of a header block that continues in the next frame."""
        self._decoder = Decoder()
        self._decoder.max_allowed_table_size = 0
        self._decoded: dict[bytes, Headers] = {}
        self._window = 65_535
        self._initial_window = 65_535
        self._frame_size = FRAME_BYTES_MAX
        self._streams_max = 100
        self._credit = 0
        self._written: list[bytes] = []
        self._blocked: dict[int, None] = {}
        self._queued: deque[Future[None]] = deque()
        """Calls that wait until fewer streams are open."""
        self._timer: TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self.ready: Future[None] = self._loop.create_future()
        """Done with the server's first settings."""
        self.is_open = True
        """Whether new streams may be opened."""

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        settings = [(TABLE_SIZE, 0), (ENABLE_PUSH, 0), (INITIAL_WINDOW, STREAM_WINDOW_BYTES)]
        packed = b"".join(_setting.pack(*each) for each in settings)
        grow = _number.pack(CONNECTION_WINDOW_BYTES - 65_535)
        self._write(PREFACE + _frame(SETTINGS, 0, 0, packed) + _frame(WINDOW_UPDATE, 0, 0, grow))
        self._timer = self._loop.call_later(PING_SECONDS, self._ping)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(Http2Error(f"the connection was lost: {exc}" if exc else "the connection was closed"))

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        at, size = 0, len(buffer)
        try:
            while size - at >= 9:
                high, low, kind, flags, stream = _frame_head.unpack_from(buffer, at)
                length = high << 8 | low
                if length > FRAME_BYTES_MAX:
                    raise Http2Error(f"a frame of {length} bytes was received")
                if size - at < 9 + length:
                    break
                at += 9 + length
                self._handle(kind, flags, stream & 0x7FFFFFFF, buffer[at - length : at])
        except (Http2Error, HPACKError, IndexError, ValueError) as error:
            self.abort(Http2Error(f"the server violates HTTP/2: {error}"))
            return
        self._buffer = buffer[at:]

    # Calls

    def has_room(self) -> bool:
        return self.is_open and len(self._streams) < self._streams_max

    async def wait_for_room(self) -> None:
        """Waits until fewer streams are open, or the connection is no longer."""
        waiter: Future[None] = self._loop.create_future()
        self._queued.append(waiter)
        await waiter

    def open(self, block: bytes, handler: Http2Stream, data: bytes, *, is_last: bool) -> int:
        """Opens a stream with a header block and the first data; returns its number."""
        number = self._next_id
        self._next_id += 2
        if self._next_id > LAST_STREAM_ID:
            self.is_open = False
        self._streams[number] = _Sending(handler, self._initial_window)
        self._write(_frame(HEADERS, END_HEADERS, number, block))
        self.send(number, data, is_last=is_last)
        return number

    def send(self, number: int, data: bytes, *, is_last: bool) -> None:
        sending = self._streams[number]
        sending.rest += data
        sending.is_last = is_last
        self._flush(number, sending)

    def resume(self, number: int) -> None:
        """Lets the server send again what a stream's handler has refused to."""
        sending = self._streams.get(number)
        if sending is not None and sending.withheld:
            size, sending.withheld = sending.withheld, 0
            self._give(number, sending, size)

    def cancel(self, number: int) -> None:
        """Ends the stream without telling its handler."""
        if self._forget(number) is not None:
            self._write(_frame(RESET, 0, number, _number.pack(CANCEL)))

    def abort(self, error: Http2Error) -> None:
        """Closes the connection; all streams fail with the error."""
        if self._transport is not None:
            self._transport.abort()
        self._end(error)

    # Frames

    def _handle(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._block is not None and kind != CONTINUATION:
            raise Http2Error("a header block is not continued")
        match kind:
            case 0:  # DATA
                self._data(flags, number, payload)
            case 1:  # HEADERS
                content = _unpadded(flags, payload)
                self._headers(number, flags, content[5:] if flags & PRIORITY else content)
            case 9:  # CONTINUATION
                if self._block is None or self._block[0] != number:
                    raise Http2Error("a continuation without headers")
                _, first_flags, block = self._block
                self._block = None
                self._headers(number, first_flags | flags & END_HEADERS, block + payload)
            case 3:  # RST_STREAM
                (code,) = _number.unpack(payload)
                if (sending := self._forget(number)) is not None:
                    error = Http2Error(f"the stream was reset ({code})", is_processed=code != REFUSED)
                    sending.handler.failed(error)
            case 4 if not flags & ACK:  # SETTINGS
                self._settings(payload)
            case 6 if not flags & ACK:  # PING
                self._write(_frame(PING, ACK, 0, payload))
            case 6:
                self._restart_timer(PING_SECONDS, self._ping)
            case 7:  # GOAWAY
                self._go_away(payload)
            case 8:  # WINDOW_UPDATE
                self._grow(number, _number.unpack(payload)[0])
            case 5:  # PUSH_PROMISE
                raise Http2Error("pushes are not enabled")
            case _:
                pass

    def _data(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        self._credit += size
        if self._credit >= CREDIT_BYTES:
            self._write(_frame(WINDOW_UPDATE, 0, 0, _number.pack(self._credit)))
            self._credit = 0
        sending = self._streams.get(number)
        if sending is None:
            return
        if sending.handler.received(_unpadded(flags, payload)):
            self._give(number, sending, size)
        else:
            sending.withheld += size
        if flags & END_STREAM:
            self._finish(number, sending)

    def _give(self, number: int, sending: _Sending, size: int) -> None:
        sending.credit += size
        if sending.credit >= CREDIT_BYTES:
            self._write(_frame(WINDOW_UPDATE, 0, number, _number.pack(sending.credit)))
            sending.credit = 0

    def _headers(self, number: int, flags: int, block: bytes) -> None:
        if not flags & END_HEADERS:
            if len(block) > HEADER_BYTES_MAX:
                raise Http2Error("headers are too long")
            self._block = number, flags, block
            return
        headers = self._decoded.get(block)
        if headers is None:
            headers = {bytes(name): bytes(value) for name, value in self._decoder.decode(block, raw=True)}
            if len(self._decoded) < BLOCKS_MAX:
                self._decoded[block] = headers
        sending = self._streams.get(number)
        if sending is not None:
            sending.headers = sending.headers | headers if sending.headers else headers
            if flags & END_STREAM:
                self._finish(number, sending)

    def _finish(self, number: int, sending: _Sending) -> None:
        self._forget(number)
        if sending.rest or not sending.is_last:
            self._write(_frame(RESET, 0, number, _number.pack(CANCEL)))
        sending.handler.ended(sending.headers)

    def _settings(self, payload: bytes) -> None:
        for identifier, value in _setting.iter_unpack(payload):
            if identifier == CONCURRENT_STREAMS:
                self._streams_max = value
            elif identifier == FRAME_SIZE:
                self._frame_size = value
            elif identifier == INITIAL_WINDOW:
                for sending in self._streams.values():
                    sending.window += value - self._initial_window
                self._initial_window = value
        self._write(_frame(SETTINGS, ACK, 0, b""))
        if not self.ready.done():
            self.ready.set_result(None)
        self._flush_blocked()
        self._wake()

    def _go_away(self, payload: bytes) -> None:
        self.is_open = False
        last = _number.unpack_from(payload)[0] & 0x7FFFFFFF
        for number in [number for number in self._streams if number > last]:
            if (sending := self._forget(number)) is not None:
                sending.handler.failed(Http2Error("the server is closing", is_processed=False))
        self._wake()
        if not self._streams:
            self.abort(Http2Error("the server closed the connection", is_processed=False))

    def _grow(self, number: int, size: int) -> None:
        if number == 0:
            self._window += size
        elif (sending := self._streams.get(number)) is not None:
            sending.window += size
        self._flush_blocked()

    # Sending

    def _flush(self, number: int, sending: _Sending) -> None:
        while True:
            size = min(len(sending.rest), self._frame_size, sending.window, self._window)
            if size <= 0 and sending.rest:
                self._blocked[number] = None
                return
            part, sending.rest = sending.rest[:size], sending.rest[size:]
            is_end = sending.is_last and not sending.rest
            self._write(_frame(DATA, END_STREAM if is_end else 0, number, part))
            sending.window -= size
            self._window -= size
            if not sending.rest:
                return

    def _flush_blocked(self) -> None:
        blocked, self._blocked = self._blocked, {}
        for number in blocked:
            if (sending := self._streams.get(number)) is not None:
                self._flush(number, sending)

    def _write(self, data: bytes) -> None:
        """Sends with whatever else is written in this iteration of the event loop: each `send` wakes the server."""
        if not self._written:
            self._loop.call_soon(self._send_written)
        self._written.append(data)

    def _send_written(self) -> None:
        written, self._written = self._written, []
        if self._transport is not None and written:
            self._transport.write(b"".join(written))

    # Ends

    def _forget(self, number: int) -> _Sending | None:
        sending = self._streams.pop(number, None)
        self._blocked.pop(number, None)
        self._wake()
        if not self.is_open and not self._streams and self._transport is not None:
            self._send_written()
            self._transport.close()
        return sending

    def _wake(self) -> None:
        """Wakes the call that waits longest for room; all, if the connection takes no more."""
        while self._queued and (self.has_room() or not self.is_open):
            waiter = self._queued.popleft()
            if not waiter.done():
                waiter.set_result(None)
                if self.is_open:
                    return

    def _end(self, error: Http2Error) -> None:
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()
        if not self.ready.done():
            self.ready.set_exception(Http2Error(str(error), is_processed=False))
            self.ready.exception()
        streams, self._streams = self._streams, {}
        for sending in streams.values():
            sending.handler.failed(error)
        self._wake()

    def _ping(self) -> None:
        self._write(_frame(PING, 0, 0, bytes(8)))
        silent = Http2Error(f"the server has not answered for {PONG_SECONDS_MAX:.0f} seconds")
        self._restart_timer(PONG_SECONDS_MAX, lambda: self.abort(silent))

    def _restart_timer(self, seconds: float, call: Callable[[], None]) -> None:
        if self._timer is not None and self.is_open | bool(self._streams):
            self._timer.cancel()
            self._timer = self._loop.call_later(seconds, call)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    size = len(payload)
    return _frame_head.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def _unpadded(flags: int, payload: bytes) -> bytes:
    if not flags & PADDED:
        return payload
    if payload[0] >= len(payload):
        raise Http2Error("padding is longer than its frame")
    return payload[1 : len(payload) - payload[0]]
