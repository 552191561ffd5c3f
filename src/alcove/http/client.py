"""One connection to a server: one exchange at a time, any number in sequence.

An exchange is a request, the head of its response, then the response's body for a receiver. Reading pauses
after the head and resumes when there is a receiver, so memory is bounded. If the state of the connection is
uncertain, it is closed: a response is never taken for the response to another request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol, cast

from msgspec import Struct

from alcove.http.closing import CLOSED, hang_up
from alcove.http.errors import BodyTooLarge, HttpError, MalformedMessage, RequestNotSent
from alcove.http.limits import LIMITS, WRITE_BUFFER_BYTES_MAX, HttpLimits
from alcove.http.messages import Field, HttpHead
from alcove.http.parsing import HttpParser
from alcove.http.upload import RequestUpload
from alcove.http.writing import RequestHeaders, request_head

BUFFERED_BYTES_MAX = 256 << 10
"""Bytes of a body that are buffered for an iterating reader, before reading from the socket is paused."""


class BodyReceiver(Protocol):
    """Receives what the server sends after a response's head."""

    def take(self, data: bytes) -> None: ...

    def ended(self, is_complete: bool) -> None:
        """Called at the end. `is_complete`: the body ended as its head announced, not by a lost
        connection."""
        ...

    def hold(self) -> None:
        """The server reads too slowly: further writes are buffered in memory."""
        ...

    def release(self) -> None: ...


class ReceivedResponse(Struct, frozen=True):
    """A response with its complete body."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class HttpClientConnection(asyncio.Protocol):
    def __init__(self, limits: HttpLimits = LIMITS) -> None:
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.head: HttpHead | None = None
        """The response's head, of the current or last exchange."""
        self.upload: RequestUpload | None = None
        """The source of the request's body while it is being sent: read no faster than the server reads."""
        self._limits = limits
        self._parser = HttpParser(self, limits, requests=False)
        self._lost: HttpError | ConnectionError | None = None
        self._answered: asyncio.Future[None] | None = None
        """Done when the response's head is received."""
        self._receiver: BodyReceiver | None = None
        self._early: list[bytes] = []
        """Body data that was received before there is a receiver."""
        self._is_busy = False
        """Whether an exchange is in progress."""
        self._is_complete = False
        """Whether the response is complete."""
        self._is_head = False
        self._is_tunnel = False

    @property
    def is_reusable(self) -> bool:
        """Whether another request may be sent: the last response is complete, and no further byte was
        received."""
        return not self._is_busy and self._lost is None and self._parser.is_idle and self.is_open

    @property
    def is_open(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    @property
    def status(self) -> int:
        """The response's status; 0 as long as there is none."""
        return self.head.status if self.head is not None else 0

    @property
    def headers(self) -> Mapping[str, str]:
        """The response's headers; names in lower case."""
        return self.head.headers if self.head is not None else {}

    @property
    def fields(self) -> list[Field]:
        """The response's headers as received."""
        return self.head.fields if self.head is not None else []

    # Exchanges

    async def exchange(
        self,
        method: str,
        target: str,
        headers: RequestHeaders,
        body: bytes = b"",
        *,
        bytes_max: int,
        count_bytes: Callable[[int], None] | None = None,
    ) -> ReceivedResponse:
        """Send a request and return the complete response, whose body may have at most `bytes_max` bytes.

        `count_bytes` is called with the number of bytes of each part of the body, before the next one is received.
        Raises what it raises, RequestNotSent, ConnectionError and HttpError. After an error or a cancellation, the
        connection is closed.
        """
        self.begin(method, target, headers, body)
        collector = _Collector(bytes_max, count_bytes)
        self._receiver = collector
        try:
            data = await self._collected(collector)
        except BaseException:
            self.abort()
            raise
        return ReceivedResponse(self.status, self.headers, data)

    def begin(self, method: str, target: str, headers: RequestHeaders, body: bytes = b"") -> None:
        """Send a request. `headers` must state the length of its body; the caller writes the part of the body
        that is not passed here to the transport. Raises RequestNotSent."""
        if self._lost is not None or not self.is_open:
            raise RequestNotSent(str(self._lost or "the connection is closed"))
        if self._is_busy:
            raise RequestNotSent("the connection is in use")
        self._is_busy, self._is_complete, self.head = True, False, None
        self._is_head = self._parser.is_bodiless = method == "HEAD"
        self._early = []
        self._answered = asyncio.get_running_loop().create_future()
        self.transport.write(request_head(method, target, headers) + body)

    async def response(self) -> HttpHead:
        """Return when the response's head is received. Raises ConnectionError and HttpError."""
        assert self._answered is not None
        try:
            await self._answered
        except asyncio.CancelledError:
            self.abort()  # Its response may still arrive.
            raise
        assert self.head is not None
        return self.head

    def follow(self, receiver: BodyReceiver) -> None:
        """Pass the response's body, or the data after a 101, to `receiver`, beginning with data already
        received."""
        self._receiver = receiver
        early, self._early = self._early, []
        for data in early:
            receiver.take(data)
        if self._is_complete or not self.is_open:
            self._end_receiver()
        self.resume()

    async def body(self, bytes_max: int) -> bytes:
        """The response's complete body. Raises ConnectionError and HttpError."""
        collector = _Collector(bytes_max)
        self.follow(collector)
        return await self._collected(collector)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The response's body as it arrives, read no faster than consumed. Raises ConnectionError and
        HttpError."""
        buffer = _Buffer(self)
        self.follow(buffer)
        while data := await buffer.next():
            yield data
        if not self._is_complete:
            raise self._error()

    async def _collected(self, collector: _Collector) -> bytes:
        if not await collector.is_complete:
            raise self._error()
        return bytes(collector.data)

    def _error(self) -> HttpError | ConnectionError:
        return self._lost or ConnectionResetError("the connection was closed")

    # Flow control, tunnels and closing

    def pause(self) -> None:
        if self.is_open:
            self.transport.pause_reading()

    def resume(self) -> None:
        if self.is_open:
            self.transport.resume_reading()

    def tunnelled(self) -> HttpClientConnection:
        """A connection to the server at the other end of the tunnel that this connection became by a 101
        response."""
        inner = HttpClientConnection(self._limits)
        self.hand_over(inner)
        inner.resume()
        return inner

    def hand_over(self, protocol: asyncio.Protocol) -> None:
        """Connect the protocol to the server at the other end of the tunnel that this connection became by a 101
        response. Reading is paused."""
        self._parser.close()
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        early, self._early = self._early, []
        for data in early:
            protocol.data_received(data)

    def close(self) -> None:
        """Close the connection. Written data is still sent, if the server reads it in time."""
        self._receiver = None
        if self.transport is not None:
            hang_up(self.transport)

    def abort(self) -> None:
        """Close the connection at once. A task that waits for the response fails with ConnectionError."""
        if self.is_open:
            self.transport.abort()

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)

    def data_received(self, data: bytes) -> None:
        if self._is_tunnel:
            self.body_received(data)
            return
        try:
            if not self._is_busy:
                raise _unsolicited()
            following = self._parser.feed(data)
        except HttpError as error:
            self._fail(error)
            self.transport.abort()
            return
        if following is not None:
            self._is_tunnel = True
            if following:
                self.body_received(following)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_busy and self.head is not None and self.head.ends_with_connection and exc is None:
            self._is_complete = True
        message = f"the connection was lost: {exc}" if exc else "the server closed the connection"
        self._fail(ConnectionResetError(message))
        if self.upload is not None:
            self.upload.resume()  # Its data is dropped, but its end must be noticed.
        # Break the reference cycles with parser and transport: otherwise each connection with its TLS
        # buffers would wait for the garbage collector.
        self._parser.close()
        self.transport = CLOSED

    def _fail(self, error: HttpError | ConnectionError) -> None:
        self._lost = self._lost or error
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(self._lost)
            self._answered.exception()  # Mark it as retrieved: no task may be waiting any more.
        self._end_receiver()

    def _end_receiver(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.ended(self._is_complete)

    def pause_writing(self) -> None:
        if self.upload is not None:
            self.upload.pause()
        if self._receiver is not None:
            self._receiver.hold()

    def resume_writing(self) -> None:
        if self.upload is not None:
            self.upload.resume()
        if self._receiver is not None:
            self._receiver.release()

    # Called by the parser

    def head_received(self, head: HttpHead) -> None:
        if not self._is_busy:
            raise _unsolicited()
        if head.status < 200 and head.status != 101:
            return
        self.head = head
        if self._receiver is None:
            self.pause()
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)

    def body_received(self, data: bytes) -> None:
        if self._receiver is not None:
            self._receiver.take(data)
        else:
            self._early.append(data)

    def message_ended(self) -> None:
        head = self.head
        if head is None or head.status == 101:
            return  # An interim response, or the beginning of a tunnel.
        self._is_complete, self._is_busy = True, False
        if not head.keep_alive and self.is_open:
            hang_up(self.transport)
        self._end_receiver()


def _unsolicited() -> MalformedMessage:
    return MalformedMessage("the server sent an unsolicited response")


class _Collector:
    """A receiver that collects the whole body, up to a limit."""

    def __init__(self, bytes_max: int, count_bytes: Callable[[int], None] | None = None) -> None:
        self.is_complete: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.data = bytearray()
        self._bytes_max = bytes_max
        self._count_bytes = count_bytes

    def take(self, data: bytes) -> None:
        if self.is_complete.done():
            return
        self.data += data
        try:
            if len(self.data) > self._bytes_max:
                raise BodyTooLarge(f"the response's body has more than {self._bytes_max} bytes")
            if self._count_bytes is not None:
                self._count_bytes(len(data))
        except Exception as error:
            self.data.clear()
            self.is_complete.set_exception(error)

    def ended(self, is_complete: bool) -> None:
        if not self.is_complete.done():
            self.is_complete.set_result(is_complete)

    def hold(self) -> None:
        pass

    def release(self) -> None:
        pass


class _Buffer:
    """A receiver that buffers data until it is consumed, and pauses the connection if the buffer is full."""

    def __init__(self, connection: HttpClientConnection) -> None:
        self._connection = connection
        self._data: list[bytes] = []
        self._bytes = 0
        self._is_over = False
        self._waiting: asyncio.Future[None] | None = None
        """Not an Event, whose queue of waiters takes as much memory as all else here."""

    async def next(self) -> bytes:
        """Empty at the end."""
        while not self._data and not self._is_over:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        data = b"".join(self._data)
        self._data.clear()
        if self._bytes > BUFFERED_BYTES_MAX:
            self._connection.resume()
        self._bytes = 0
        return data

    def take(self, data: bytes) -> None:
        self._data.append(data)
        self._bytes += len(data)
        self._wake()
        if self._bytes > BUFFERED_BYTES_MAX:
            self._connection.pause()

    def ended(self, is_complete: bool) -> None:
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def hold(self) -> None:
        pass

    def release(self) -> None:
        pass
