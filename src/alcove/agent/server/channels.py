"""The streams of an exec or attach: stdin, stdout, stderr, terminal sizes and the outcome, over WebSocket or
SPDY.

WebSocket (`v5.channel.k8s.io` and older): the first byte of a message names its stream; in version 5 a
message (255, n) ends the stream n. SPDY/3.1: each stream is one of SPDY's, named by its header `streamtype`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol

import orjson
from msgspec import Struct

from alcove.agent.server import websocket
from alcove.agent.server.inbox import Inbox
from alcove.agent.server.pings import pinging
from alcove.agent.server.requests import NodeRequest
from alcove.agent.server.spdy.session import SpdySession, SpdyStream
from alcove.agent.server.websocket import ANSWER_SECONDS_MAX, BEFORE_V5, V4, V4_TEXT, V5, WebSocket
from alcove.api.errors import BadRequest
from alcove.api.objects import Object
from alcove.component.tasks import stop
from alcove.http.streams import HttpServerStream

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
_CLOSE = 255
_NAMES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}

_STATUS_PROTOCOLS = frozenset((V5, V4, V4_TEXT))
"""Protocols that send the outcome as a Status. The older ones send an error message, and nothing on
success."""
SPDY = "SPDY/3.1"
STREAMS_SECONDS_MAX = 30.0
SIZE_BYTES_MAX = 1 << 10


class RequestedStreams(Struct, frozen=True):
    """The streams that the client requested."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False

    @classmethod
    def from_request(cls, request: NodeRequest) -> RequestedStreams:
        """Raises BadRequest."""
        tty = request.flag("tty")
        requested = cls(
            request.flag("stdin"), request.flag("stdout"), request.flag("stderr") and not tty, tty
        )
        if not (requested.stdin or requested.stdout or requested.stderr):
            raise BadRequest("you must specify at least one of stdin, stdout, stderr")
        return requested


class TerminalSize(Struct, frozen=True):
    width: int
    height: int


class StreamChannels(Protocol):
    stdin: Inbox
    sizes: Inbox

    async def run(self) -> None:
        """Reads from the client; returns when the client has disconnected."""
        ...

    async def write(self, channel: int, data: bytes) -> None:
        """Returns when there is room for more. Raises ConnectionError."""
        ...

    async def finish(self, outcome: Object) -> None:
        """Sends the outcome and closes the streams."""
        ...


@asynccontextmanager
async def opened(
    connection: HttpServerStream, request: NodeRequest, requested: RequestedStreams
) -> AsyncIterator[_OpenChannels]:
    """Negotiates the protocol and yields the open streams. Raises BadRequest before the connection is
    upgraded."""
    if websocket.is_upgrade_request(request):
        protocol = websocket.chosen(request, (V5, *BEFORE_V5))
        socket = await WebSocket.accept(connection, request, protocol)
        channels: StreamChannels = WebSocketChannels(
            socket, can_close_stdin=protocol == V5, sends_status=protocol in _STATUS_PROTOCOLS
        )
        reading = asyncio.create_task(channels.run(), name="WebSocket channels")
    elif request.headers.get("upgrade", "").lower() == SPDY.lower():
        session = await _accept_spdy(connection, request)
        reading = asyncio.create_task(session.run(), name="SPDY session")
        try:
            channels = await SpdyChannels.gather(session, requested)
        except BaseException:
            await stop(reading)
            raise
    else:
        raise BadRequest("unable to upgrade: missing upgrade headers in request")
    try:
        yield _OpenChannels(channels, reading)
    finally:
        await stop(reading)


class _OpenChannels(Struct, frozen=True):
    channels: StreamChannels
    reading: asyncio.Task[None]

    async def during(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work`, and cancels it if the client disconnects first."""
        task = asyncio.create_task(work)
        try:
            await asyncio.wait((task, self.reading), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
        # The outcome has been sent: wait for the client to close the connection.
        self.channels.stdin.discard()
        self.channels.sizes.discard()
        await asyncio.wait((self.reading,), timeout=ANSWER_SECONDS_MAX)


class WebSocketChannels:
    def __init__(self, socket: WebSocket, *, can_close_stdin: bool, sends_status: bool) -> None:
        self.stdin, self.sizes = Inbox(), Inbox(SIZE_BYTES_MAX)
        self._socket = socket
        self._can_close_stdin = can_close_stdin
        """Whether the client can close stdin and continue to read (version 5)."""
        self._sends_status = sends_status

    async def run(self) -> None:
        async with pinging(self._ping):
            await self._read()
        self.stdin.end()
        self.sizes.end()

    async def _ping(self) -> None:
        if self.stdin.is_full or self.sizes.is_full:
            await self._socket.ping()

    async def _read(self) -> None:
        channel = -1
        while (piece := await self._socket.receive()) is not None:
            data = piece.data
            if piece.is_first:
                if not data:
                    continue
                channel, data = data[0], data[1:]
            if channel == STDIN:
                await self.stdin.put(data)
            elif channel == RESIZE:
                await self.sizes.put(data)
            elif channel == _CLOSE and self._can_close_stdin and data[:1] == bytes([STDIN]):
                self.stdin.end()

    async def write(self, channel: int, data: bytes) -> None:
        await self._socket.send(bytes([channel]) + data)

    async def finish(self, outcome: Object) -> None:
        message = orjson.dumps(outcome) if self._sends_status else outcome.get("message", "").encode()
        if message:
            await self.write(ERROR, message)
        await self._socket.close()


class SpdyChannels:
    def __init__(self, session: SpdySession, streams: dict[int, SpdyStream]) -> None:
        self.stdin = streams[STDIN].inbox if STDIN in streams else Inbox()
        self.sizes = streams[RESIZE].inbox if RESIZE in streams else Inbox()
        self._session = session
        self._streams = streams

    @classmethod
    async def gather(cls, session: SpdySession, requested: RequestedStreams) -> SpdyChannels:
        """Waits until the client has opened the requested streams. Raises ConnectionError, TimeoutError."""
        is_requested_by_channel = {
            STDIN: requested.stdin,
            STDOUT: requested.stdout,
            STDERR: requested.stderr,
            RESIZE: requested.tty,
        }
        missing = {
            ERROR,
            *(channel for channel, is_requested in is_requested_by_channel.items() if is_requested),
        }
        streams: dict[int, SpdyStream] = {}
        async with asyncio.timeout(STREAMS_SECONDS_MAX):
            while missing:
                stream = await session.accept()
                if stream is None:
                    raise ConnectionResetError("the client disconnected before it opened its streams")
                channel = _NAMES.get(stream.headers.get("streamtype", ""), -1)
                if channel in missing:
                    missing.discard(channel)
                    streams[channel] = stream
                else:
                    await stream.close()
        return cls(session, streams)

    async def run(self) -> None:
        await self._session.run()

    async def write(self, channel: int, data: bytes) -> None:
        await self._streams[channel].write(data)

    async def finish(self, outcome: Object) -> None:
        for channel in (STDOUT, STDERR):
            if channel in self._streams:
                await self._streams[channel].end()
        await self._streams[ERROR].write(orjson.dumps(outcome))
        await self._streams[ERROR].end()


async def _accept_spdy(connection: HttpServerStream, request: NodeRequest) -> SpdySession:
    offered = [each.strip() for each in request.headers.get("x-stream-protocol-version", "").split(",")]
    if V4 not in offered:
        raise BadRequest(
            "unable to upgrade: unable to negotiate protocol: "
            f"client supports {offered}, server accepts {[V4]}"
        )
    headers = {"Upgrade": SPDY, "Connection": "Upgrade", "X-Stream-Protocol-Version": V4}
    await connection.switch(headers)
    return SpdySession(connection)


async def sizes_of(inbox: Inbox) -> AsyncIterator[TerminalSize]:
    """Terminal sizes, which clients send as a sequence of flat JSON objects."""
    unread = b""
    while data := await inbox.get():
        unread += data
        *texts, unread = unread.split(b"}")
        unread = unread[-SIZE_BYTES_MAX:]
        for text in texts:
            if (size := _size(text + b"}")) is not None:
                yield size


def _size(text: bytes) -> TerminalSize | None:
    try:
        size = orjson.loads(text)
        width, height = size["Width"], size["Height"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    if not all(isinstance(each, int) and 0 < each <= 0xFFFF for each in (width, height)):
        return None
    return TerminalSize(width, height)


def success() -> Object:
    return {"metadata": {}, "status": "Success"}


def failure(message: str) -> Object:
    return {
        "metadata": {}, "status": "Failure", "message": message, "reason": "InternalError",
        "details": {"causes": [{"message": message}]}, "code": 500,
    }  # fmt: skip


def exited(code: int) -> Object:
    """The outcome of a process that exited. kubectl exits with the same code."""
    if code == 0:
        return success()
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
