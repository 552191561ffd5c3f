"""One connection to an API server: HTTP/1.1 on asyncio, parsed by httptools, one request at a time.

A body that is streamed is not read faster than it is consumed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import cast

import httptools

from alcove.client.errors import ClientError, Malformed, Unreachable
from alcove.client.transport import Response

BUFFERED_BYTES_MAX = 256 << 10
"""Of a stream, before the socket is left unread."""


class _Closed(asyncio.Transport):
    """The transport of connections that are over."""

    def is_closing(self) -> bool:
        return True

    def resume_reading(self) -> None:
        pass


_CLOSED = _Closed()


class Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._parser = httptools.HttpResponseParser(self)
        self._answered: asyncio.Future[None] | None = None
        """Waits for the answer's end, or for its head where it is streamed."""
        self._is_streamed = False
        self._lost: ClientError | None = None
        self._arrived = asyncio.Event()
        self._paused = False
        self._begin()

    def _begin(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._body: deque[bytes] = deque()
        self._buffered_bytes = 0
        self._is_complete = False

    @property
    def is_usable(self) -> bool:
        """Another request may be sent."""
        return self._lost is None and self._answered is None and not self._transport.is_closing()

    async def send(self, data: bytes) -> Response:
        """Sends one whole request and returns the whole answer. Raises Unreachable, Malformed."""
        await self._exchange(data, streamed=False)
        return Response(self.status, self.headers, b"".join(self._body))

    async def open(self, data: bytes) -> None:
        """Sends one whole request and returns with the answer's head in `status` and `headers`."""
        self._arrived.clear()
        await self._exchange(data, streamed=True)

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            if self._body:
                chunk = b"".join(self._body)
                self._body.clear()
                self._buffered_bytes = 0
                if self._paused:
                    self._paused = False
                    self._transport.resume_reading()
                yield chunk
            elif self._is_complete:
                return
            elif self._lost is not None:
                raise self._lost
            else:
                self._arrived.clear()
                await self._arrived.wait()

    def close(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.abort()

    async def _exchange(self, data: bytes, *, streamed: bool) -> None:
        if self._lost is not None:
            raise Unreachable(str(self._lost), sent=False)
        self._begin()
        self._is_streamed = streamed
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        try:
            await self._answered
        except asyncio.CancelledError:
            # Its answer may still come: nobody else may be given this connection.
            self.close()
            raise
        finally:
            self._answered = None

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(Malformed(f"not an HTTP answer: {error}"))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        told = f"the connection was lost: {exc}" if exc else "the server closed the connection"
        self._fail(Unreachable(told, sent=True))
        # Parser and transport hold this object as it holds them: left so, each connection would wait, with the buffers
        # of its TLS, for somebody to look for such circles.
        del self._parser
        self._transport = _CLOSED

    def _fail(self, error: ClientError) -> None:
        self._lost = self._lost or error
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(self._lost)
        self._arrived.set()

    # The parser's side

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self._is_streamed:
            self._answer()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        if self._is_streamed:
            self._buffered_bytes += len(body)
            self._arrived.set()
            if self._buffered_bytes > BUFFERED_BYTES_MAX and not self._paused:
                self._paused = True
                self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if not self._parser.should_keep_alive():
            self._transport.close()
        self._is_complete = True
        self._arrived.set()
        if not self._is_streamed:
            self._answer()

    def _answer(self) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)
