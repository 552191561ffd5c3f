"""HTTP over asyncio's streams, for code that handles messages event by event: relays, one-request
connections.

`HttpStream` reads; `HttpServerStream` responds to one request, `HttpClientStream` can be reused for further
requests.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import SupportsIndex, TypeVar

from alcove.http.closing import reset
from alcove.http.limits import LIMITS, READ_BYTES, HttpLimits
from alcove.http.messages import HttpHead
from alcove.http.parsing import HttpParser
from alcove.http.writing import LAST_CHUNK, chunk, response_head


class MessageMark(Enum):
    END = "end"
    """The message is complete."""
    LOST = "lost"
    """The peer has closed."""


MessageEvent = HttpHead | bytes | MessageMark


class _EventQueue(deque[MessageEvent]):
    """The parser's sink. Not the stream itself, since a parser and its sink form a reference cycle, which
    would keep the stream's TLS memory until garbage collection."""

    def head_received(self, head: HttpHead) -> None:
        self.append(head)

    def body_received(self, data: bytes) -> None:
        self.append(data)

    def message_ended(self) -> None:
        self.append(MessageMark.END)


class HttpStream:
    """The peer's messages as events: a head, parts of a body, an end. After an upgrade, bytes in both
    directions."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        limits: HttpLimits = LIMITS,
        *,
        requests: bool,
    ) -> None:
        self.reader = reader
        self.writer = writer
        self._limits = limits
        self._events = _EventQueue()
        self._is_lost = False
        self._rest = b""
        """Bytes after a message that requested or began another protocol."""
        self.parser = HttpParser(self._events, limits, requests=requests)
        self.taken_bytes = 0
        """Number of bytes that were read from the reader."""
        writer.transport.set_write_buffer_limits(high=READ_BYTES)

    @property
    def is_idle(self) -> bool:
        """Whether no byte of another message was received yet and the connection is open."""
        has_more = bool(self._events or self._rest) or not self.parser.is_idle
        return not has_more and not self._is_lost and not self.reader.at_eof()

    @property
    def has_event(self) -> bool:
        """Whether `next` would return without waiting."""
        return bool(self._events)

    async def next(self, seconds: float) -> MessageEvent:
        """The next event, within this time. Raises TimeoutError and HttpError."""
        if not self._events:
            async with asyncio.timeout(seconds):
                while not self._events:
                    await self._read()
        return self._events.popleft()

    async def wait(self, seconds: float) -> bool:
        """Wait for the first byte of a message, which may take longer than the rest of its head. Returns
        whether it was received. Raises HttpError."""
        if not self.is_idle:
            return True
        try:
            async with asyncio.timeout(seconds):
                data = await self.reader.read(1)
        except TimeoutError:
            return False
        if data:
            self._feed(data)
        return bool(data)

    def decline_upgrade(self) -> None:
        """Parse the bytes after a request to upgrade as HTTP. Raises HttpError."""
        rest, self._rest = self._rest, b""
        if rest:
            self._feed(rest)

    async def _read(self) -> None:
        try:
            data = await self.reader.read(READ_BYTES)
        except OSError:
            data = b""
        if data:
            self._feed(data)
        else:
            self._is_lost = True
            self._events.append(MessageMark.LOST)

    def _feed(self, data: bytes) -> None:
        self.taken_bytes += len(data)
        self._rest = self.parser.feed(data) or b""

    async def linger(self) -> None:
        """End writing, and drop further data for a while: otherwise a client that is still sending could lose
        the response to a reset."""
        if self.writer.can_write_eof():
            self.writer.write_eof()
        try:
            async with asyncio.timeout(self._limits.linger_seconds_max):
                await self.writer.drain()
                while await self.reader.read(READ_BYTES):
                    pass
        except TimeoutError:
            pass

    # Bytes, after an upgrade

    async def read(self) -> bytes:
        """The next bytes; empty when the peer has closed."""
        if self._rest:
            rest, self._rest = self._rest, b""
            return rest
        try:
            return await self.reader.read(READ_BYTES)
        except ConnectionError:
            return b""

    async def write(self, data: bytes) -> None:
        """Write, and return when the buffer accepts more. Raises ConnectionError."""
        self.writer.write(data)
        await self.writer.drain()


class HttpServerStream(HttpStream):
    """A client's connection that carries one request."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: HttpLimits = LIMITS
    ) -> None:
        super().__init__(reader, writer, limits, requests=True)
        self.is_answered = False

    async def request(self) -> HttpHead:
        """The request's head. Raises HttpError, TimeoutError, and EOFError if the client disconnected before
        it."""
        event = await self.next(self._limits.head_seconds_max)
        if not isinstance(event, HttpHead):
            raise EOFError("the client closed the connection")
        return event

    async def respond(
        self,
        status: int,
        body: bytes,
        content_type: str = "application/json",
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`headers` are further ones."""
        own = {"Content-Type": content_type, "Content-Length": str(len(body)), "Connection": "close"}
        await self._write_head(status, {**own, **headers})
        await self.write(body)

    async def begin(self, content_type: str) -> None:
        """Begin a response whose body is written with `chunk` and ended with `end`."""
        headers = {"Content-Type": content_type, "Transfer-Encoding": "chunked", "Connection": "close"}
        await self._write_head(200, headers)

    async def chunk(self, data: bytes) -> None:
        if data:
            await self.write(chunk(data))

    async def end(self) -> None:
        await self.write(LAST_CHUNK)

    async def switch(self, headers: Mapping[str, str]) -> None:
        """Switch the connection to the protocol in the headers."""
        await self._write_head(101, headers)

    async def hand_over(self, protocol: asyncio.Protocol) -> bytes:
        """Connect the protocol to the client, after an upgrade; returns the bytes that were received before. The
        protocol passes `connection_lost` on to the one before it."""
        transport = self.writer.transport
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        self.reader.feed_eof()
        rest, self._rest = self._rest, b""
        return rest + await self.reader.read()

    def reset(self) -> None:
        """Reset the connection, so that the client knows that the response is incomplete."""
        reset(self.writer.transport)

    async def _write_head(self, status: int, headers: Mapping[str, str]) -> None:
        self.is_answered = True
        await self.write(response_head(status, headers))


class _CountingReader(asyncio.StreamReader):
    """Counts the received bytes, read or not."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.received_bytes = 0

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        assert isinstance(data, bytes | bytearray | memoryview)
        self.received_bytes += len(data)
        super().feed_data(data)


class _CountingWriter(asyncio.StreamWriter):
    """Counts the bytes to send, sent or not."""

    sent_bytes = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent_bytes += len(data)
        super().write(data)

    def writelines(self, data: Iterable[bytes | bytearray | memoryview]) -> None:
        parts = list(data)
        self.sent_bytes += sum(map(len, parts))
        super().writelines(parts)


_S = TypeVar("_S", bound="HttpClientStream")


class HttpClientStream(HttpStream):
    """A connection to a server, for one exchange after another."""

    def __init__(self, reader: _CountingReader, writer: _CountingWriter, limits: HttpLimits) -> None:
        super().__init__(reader, writer, limits, requests=False)
        self._counting = reader
        self._sending = writer

    @property
    def sent_bytes(self) -> int:
        return self._sending.sent_bytes

    @property
    def received_bytes(self) -> int:
        return self._counting.received_bytes

    @classmethod
    async def over(cls: type[_S], sock: socket.socket, limits: HttpLimits) -> _S:
        """Take over a connected socket; close it if that fails."""
        loop = asyncio.get_running_loop()
        reader = _CountingReader(loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        try:
            transport, _ = await loop.create_connection(lambda: protocol, sock=sock)
        except BaseException:
            sock.close()
            raise
        return cls(reader, _CountingWriter(transport, protocol, reader, loop), limits)

    @property
    def is_reusable(self) -> bool:
        """Whether another request may be sent: the last response is complete, and no further byte was
        received."""
        is_read = self._counting.received_bytes == self.taken_bytes
        return is_read and self.is_idle and not self.writer.is_closing()

    def begin(self, method: bytes) -> None:
        """Must be called before a request with this method is written: a response to HEAD has no body."""
        self.parser.is_bodiless = method == b"HEAD"

    def close(self) -> None:
        self.writer.close()

    def abort(self) -> None:
        self.writer.transport.abort()
