"""A SPDY session over any connection: the client opens streams, the server accepts or refuses each.

One task reads the connection (`run`); other tasks read from and write to streams. The unread data of a stream
is bounded; when it is full the whole session waits, because Kubernetes clients do not use SPDY's flow
control.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from alcove.agent.server.inbox import Inbox
from alcove.agent.server.pings import pinging
from alcove.agent.server.spdy.frames import (
    DataFrame,
    FrameReader,
    FrameWriter,
    GoneAway,
    Opened,
    Pinged,
    ProtocolError,
    Reset,
)

STREAMS_MAX = 512
_REFUSED = 3
_SERVER_PING = 2


class Wire(Protocol):
    """A bidirectional byte stream, after the protocol upgrade."""

    async def read(self) -> bytes:
        """Empty when the peer has closed the connection."""
        ...

    async def write(self, data: bytes) -> None:
        """Returns when there is room for more. Raises ConnectionError."""
        ...


class SpdyStream:
    def __init__(self, session: SpdySession, id: int, headers: dict[str, str]) -> None:
        self.id = id
        self.headers = headers
        self.inbox = Inbox()
        self._session = session
        self._is_ended = False

    async def read(self) -> bytes:
        """Empty when the client sends nothing more."""
        return await self.inbox.get()

    async def write(self, data: bytes) -> None:
        """Raises ConnectionError."""
        if self._is_ended:
            raise ConnectionResetError("the stream is closed")
        await self._session.wire.write(self._session.writer.data(self.id, data))

    async def end(self) -> None:
        """Closes the stream for writing. Idempotent."""
        if not self._is_ended:
            self._is_ended = True
            await self._session.wire.write(self._session.writer.data(self.id, b"", is_last=True))

    async def close(self) -> None:
        """Closes the stream in both directions and removes it from the session."""
        await self.end()
        self.abandon()
        self._session.forget(self)

    def abandon(self) -> None:
        """Marks the stream as closed without sending anything."""
        self._is_ended = True
        self.inbox.discard()


class SpdySession:
    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.writer = FrameWriter()
        self._streams: dict[int, SpdyStream] = {}
        self._opened: asyncio.Queue[SpdyStream | None] = asyncio.Queue()
        self._last_stream = 0

    async def accept(self) -> SpdyStream | None:
        """The next stream that the client opens; None when it opens no more."""
        return await self._opened.get()

    async def run(self) -> None:
        """Returns when the connection ends."""
        reader = FrameReader()
        try:
            async with pinging(self._ping):
                while data := await self.wire.read():
                    for event in reader.feed(data):
                        await self._handle(event)
        except (ProtocolError, ConnectionError):
            pass  # The connection is closed.
        finally:
            for stream in self._streams.values():
                stream.abandon()
            self._streams.clear()
            self._opened.put_nowait(None)

    async def _ping(self) -> None:
        if any(each.inbox.is_full for each in self._streams.values()):
            await self.wire.write(self.writer.ping(_SERVER_PING))

    def forget(self, stream: SpdyStream) -> None:
        self._streams.pop(stream.id, None)

    async def _handle(self, event: Opened | DataFrame | Reset | Pinged | GoneAway) -> None:
        match event:
            case Opened():
                await self._open(event)
            case DataFrame():
                await self._deliver(event)
            case Reset():
                stream = self._streams.pop(event.stream, None)
                if stream is not None:
                    stream.abandon()
            case Pinged() if event.number % 2:
                await self.wire.write(self.writer.ping(event.number))
            case Pinged():
                pass  # The reply to a ping of the server.
            case GoneAway():
                pass  # Open streams continue; the client closes the connection.

    async def _open(self, event: Opened) -> None:
        if event.stream <= self._last_stream or event.stream % 2 == 0:
            raise ProtocolError("stream ids of clients must be odd and increasing")
        self._last_stream = event.stream
        if max(len(self._streams), self._opened.qsize()) >= STREAMS_MAX:
            await self.wire.write(self.writer.reset(event.stream, _REFUSED))
            return
        stream = SpdyStream(self, event.stream, event.headers)
        if event.is_ended:
            stream.inbox.end()
        self._streams[event.stream] = stream
        await self.wire.write(self.writer.reply(event.stream))
        self._opened.put_nowait(stream)

    async def _deliver(self, event: DataFrame) -> None:
        stream = self._streams.get(event.stream)
        if stream is None:
            return
        await stream.inbox.put(event.data)
        if event.is_ended:
            stream.inbox.end()
