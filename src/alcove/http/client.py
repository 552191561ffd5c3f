"""One connection to a server: one exchange at a time, any number one after another.

An exchange is a request, the head of its response, then its body for whoever takes it. Reading stops with the head and
goes on when somebody takes the body, so nothing is kept without bound. Whenever the state of the connection is in
doubt it is closed: no response is ever taken for the answer to another request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Protocol, cast

from msgspec import Struct

from alcove.http.closing import CLOSED, hang_up
from alcove.http.errors import BodyTooLarge, HttpError, MalformedMessage, RequestNotSent
from alcove.http.limits import LIMITS, WRITE_BUFFER_BYTES_MAX, HttpLimits
from alcove.http.messages import Field, HttpHead
from alcove.http.parsing import HttpParser
from alcove.http.upload import RequestUpload
from alcove.http.writing import request_head

BUFFERED_BYTES_MAX = 256 << 10
"""Of a body that is iterated over, before the socket is left unread."""


class BodyReceiver(Protocol):
    """Who takes what the server sends after a response's head."""

    def take(self, data: bytes) -> None: ...

    def ended(self, is_complete: bool) -> None:
        """Nothing more comes. `is_complete`: the body ended as its head said."""
        ...

    def hold(self) -> None:
        """The server reads too slowly: what is written now is kept in memory."""
        ...

    def release(self) -> None: ...


class ReceivedResponse(Struct, frozen=True):
    """A response with all of its body."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class HttpClientConnection(asyncio.Protocol):
    def __init__(self, limits: HttpLimits = LIMITS) -> None:
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.head: HttpHead | None = None
        """Of the response of the exchange under way, or of the last one."""
        self.upload: RequestUpload | None = None
        """The request's body that is still being sent: it is read as the server takes it."""
        self._limits = limits
        self._parser = HttpParser(self, limits, requests=False)
        self._lost: HttpError | ConnectionError | None = None
        self._answered: asyncio.Future[None] | None = None
        """Waits for the response's head."""
        self._receiver: BodyReceiver | None = None
        self._early: list[bytes] = []
        """Of the body, while there is no receiver."""
        self._is_busy = False
        """An exchange is under way."""
        self._is_complete = False
        """The response is."""
        self._is_head = False
        self._is_tunnel = False

    @property
    def is_reusable(self) -> bool:
        """Another request may be sent: the server has said all that it was asked for, and not a byte more."""
        return not self._is_busy and self._lost is None and self._parser.is_idle and self.is_open

    @property
    def is_open(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    @property
    def status(self) -> int:
        """Of the response; 0 as long as there is none."""
        return self.head.status if self.head is not None else 0

    @property
    def headers(self) -> Mapping[str, str]:
        """Of the response; names in lower case."""
        return self.head.headers if self.head is not None else {}

    @property
    def fields(self) -> list[Field]:
        """The response's headers as they came."""
        return self.head.fields if self.head is not None else []

    # Exchanges

    async def exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"", *, bytes_max: int
    ) -> ReceivedResponse:
        """Sends a request and returns the whole response, whose body has at most `bytes_max` bytes. Raises
        RequestNotSent, ConnectionError, HttpError. After an error, or when cancelled, the connection is over."""
        self.begin(method, target, headers, body)
        collector = _Collector(bytes_max)
        self._receiver = collector
        try:
            data = await self._collected(collector)
        except BaseException:
            self.abort()
            raise
        return ReceivedResponse(self.status, self.headers, data)

    def begin(self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Sends a request. `headers` say how long its body is; what of it is not given here is to be written to the
        transport. Raises RequestNotSent."""
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
        """Returns when the response's head has come. Raises ConnectionError, HttpError."""
        assert self._answered is not None
        try:
            await self._answered
        except asyncio.CancelledError:
            self.abort()  # Its response may still come.
            raise
        assert self.head is not None
        return self.head

    def follow(self, receiver: BodyReceiver) -> None:
        """From here on `receiver` gets the response's body, or what comes after a 101; what has come already first."""
        self._receiver = receiver
        early, self._early = self._early, []
        for data in early:
            receiver.take(data)
        if self._is_complete or not self.is_open:
            self._end_receiver()
        self.resume()

    async def body(self, bytes_max: int) -> bytes:
        """All of the response's body. Raises ConnectionError, HttpError."""
        collector = _Collector(bytes_max)
        self.follow(collector)
        return await self._collected(collector)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The response's body as it comes, read no faster than it is consumed. Raises ConnectionError, HttpError."""
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

    # Its end, and other uses

    def pause(self) -> None:
        if self.is_open:
            self.transport.pause_reading()

    def resume(self) -> None:
        if self.is_open:
            self.transport.resume_reading()

    def tunnelled(self) -> HttpClientConnection:
        """A connection to the server at the other end of the tunnel that the response, a 101, has made of this one."""
        inner = HttpClientConnection(self._limits)
        self._parser.close()
        self.transport.set_protocol(inner)
        inner.connection_made(self.transport)
        early, self._early = self._early, []
        for data in early:
            inner.data_received(data)
        inner.resume()
        return inner

    def close(self) -> None:
        """What was written still goes out, if the server takes it in time."""
        self._receiver = None
        if self.transport is not None:
            hang_up(self.transport)

    def abort(self) -> None:
        self._receiver = None
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
                raise _unasked()
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
        why = f"the connection was lost: {exc}" if exc else "the server closed the connection"
        self._fail(ConnectionResetError(why))
        if self.upload is not None:
            self.upload.resume()  # What comes is dropped; that it ended must be seen.
        # Parser and transport hold this object as it holds them: left so, each connection would wait, with the buffers
        # of its TLS, for the garbage collector.
        self._parser.close()
        self.transport = CLOSED

    def _fail(self, error: HttpError | ConnectionError) -> None:
        self._lost = self._lost or error
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(self._lost)
            self._answered.exception()  # Whoever waited for it may be gone.
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
            raise _unasked()
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


def _unasked() -> MalformedMessage:
    return MalformedMessage("the server sent a response that nobody asked for")


class _Collector:
    """A receiver that keeps everything, up to a limit."""

    def __init__(self, bytes_max: int) -> None:
        self.is_complete: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.data = bytearray()
        self._bytes_max = bytes_max

    def take(self, data: bytes) -> None:
        if self.is_complete.done():
            return
        self.data += data
        if len(self.data) > self._bytes_max:
            self.data.clear()
            self.is_complete.set_exception(
                BodyTooLarge(f"the response's body has more than {self._bytes_max} bytes")
            )

    def ended(self, is_complete: bool) -> None:
        if not self.is_complete.done():
            self.is_complete.set_result(is_complete)

    def hold(self) -> None:
        pass

    def release(self) -> None:
        pass


class _Buffer:
    """A receiver that keeps what has not been consumed yet, and has no more of it sent."""

    def __init__(self, connection: HttpClientConnection) -> None:
        self._connection = connection
        self._data: list[bytes] = []
        self._bytes = 0
        self._is_over = False
        self._arrived = asyncio.Event()

    async def next(self) -> bytes:
        """Empty at the end."""
        while not self._data and not self._is_over:
            self._arrived.clear()
            await self._arrived.wait()
        data = b"".join(self._data)
        self._data.clear()
        if self._bytes > BUFFERED_BYTES_MAX:
            self._connection.resume()
        self._bytes = 0
        return data

    def take(self, data: bytes) -> None:
        self._data.append(data)
        self._bytes += len(data)
        self._arrived.set()
        if self._bytes > BUFFERED_BYTES_MAX:
            self._connection.pause()

    def ended(self, is_complete: bool) -> None:
        self._is_over = True
        self._arrived.set()

    def hold(self) -> None:
        pass

    def release(self) -> None:
        pass
