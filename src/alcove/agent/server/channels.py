"""The streams of an exec or attach: input, output, errors, window sizes and the outcome, however they are carried.

WebSocket (`v5.channel.k8s.io` and older): the first byte of a message names its stream; in version 5 a message (255, n)
ends the stream n. SPDY/3.1: each stream is one of SPDY's, named by its header `streamtype`.
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

_TELL_STATUS = frozenset((V5, V4, V4_TEXT))
"""Protocols in which the outcome is a Status; in the others it is words, and none means that all went well."""
SPDY = "SPDY/3.1"
STREAMS_SECONDS_MAX = 30.0
SIZE_BYTES_MAX = 1 << 10


class RequestedStreams(Struct, frozen=True):
    """Which streams the client asked for."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False

    @classmethod
    def of(cls, request: NodeRequest) -> RequestedStreams:
        """Raises BadRequest."""
        tty = request.flag("tty")
        wanted = cls(request.flag("stdin"), request.flag("stdout"), request.flag("stderr") and not tty, tty)
        if not (wanted.stdin or wanted.stdout or wanted.stderr):
            raise BadRequest("you must specify at least one of stdin, stdout, stderr")
        return wanted


class TerminalSize(Struct, frozen=True):
    width: int
    height: int


class StreamChannels(Protocol):
    stdin: Inbox
    sizes: Inbox

    async def run(self) -> None:
        """Reads what comes in; returns when the client is gone."""
        ...

    async def write(self, channel: int, data: bytes) -> None:
        """Returns when there is room for more. Raises ConnectionError."""
        ...

    async def finish(self, outcome: Object) -> None:
        """Tells the outcome and that it is over."""
        ...


@asynccontextmanager
async def opened(
    connection: HttpServerStream, request: NodeRequest, wanted: RequestedStreams
) -> AsyncIterator[_Open]:
    """The streams, once both sides agree on how; raises BadRequest before anything was agreed."""
    if websocket.is_upgrade_request(request):
        protocol = websocket.chosen(request, (V5, *BEFORE_V5))
        socket = await WebSocket.accept(connection, request, protocol)
        channels: StreamChannels = WebSocketChannels(
            socket, may_end=protocol == V5, tells_status=protocol in _TELL_STATUS
        )
        reading = asyncio.create_task(channels.run(), name="WebSocket channels")
    elif request.headers.get("upgrade", "").lower() == SPDY.lower():
        session = await _accept_spdy(connection, request)
        reading = asyncio.create_task(session.run(), name="SPDY session")
        try:
            channels = await SpdyChannels.gather(session, wanted)
        except BaseException:
            await stop(reading)
            raise
    else:
        raise BadRequest("unable to upgrade: missing upgrade headers in request")
    try:
        yield _Open(channels, reading)
    finally:
        await stop(reading)


class _Open(Struct, frozen=True):
    channels: StreamChannels
    reading: asyncio.Task[None]

    async def during(self, work: Coroutine[Any, Any, None]) -> None:
        """Does the work; cancels it when the client leaves first."""
        task = asyncio.create_task(work)
        try:
            await asyncio.wait((task, self.reading), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
        # The client was told that it is over: it hangs up.
        self.channels.stdin.discard()
        self.channels.sizes.discard()
        await asyncio.wait((self.reading,), timeout=ANSWER_SECONDS_MAX)


class WebSocketChannels:
    def __init__(self, socket: WebSocket, *, may_end: bool, tells_status: bool) -> None:
        self.stdin, self.sizes = Inbox(), Inbox(SIZE_BYTES_MAX)
        self._socket = socket
        self._may_end = may_end
        """The client can end its input and go on listening."""
        self._tells_status = tells_status

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
            elif channel == _CLOSE and self._may_end and data[:1] == bytes([STDIN]):
                self.stdin.end()

    async def write(self, channel: int, data: bytes) -> None:
        await self._socket.send(bytes([channel]) + data)

    async def finish(self, outcome: Object) -> None:
        told = orjson.dumps(outcome) if self._tells_status else outcome.get("message", "").encode()
        if told:
            await self.write(ERROR, told)
        await self._socket.close()


class SpdyChannels:
    def __init__(self, session: SpdySession, streams: dict[int, SpdyStream]) -> None:
        self.stdin = streams[STDIN].inbox if STDIN in streams else Inbox()
        self.sizes = streams[RESIZE].inbox if RESIZE in streams else Inbox()
        self._session = session
        self._streams = streams

    @classmethod
    async def gather(cls, session: SpdySession, wanted: RequestedStreams) -> SpdyChannels:
        """Waits for the streams that the client said it would open. Raises ConnectionError, TimeoutError."""
        asked = {STDIN: wanted.stdin, STDOUT: wanted.stdout, STDERR: wanted.stderr, RESIZE: wanted.tty}
        missing = {ERROR, *(channel for channel, is_wanted in asked.items() if is_wanted)}
        streams: dict[int, SpdyStream] = {}
        async with asyncio.timeout(STREAMS_SECONDS_MAX):
            while missing:
                stream = await session.accept()
                if stream is None:
                    raise ConnectionResetError("the client left before it opened its streams")
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
        raise BadRequest(f"unable to upgrade: none of the protocols {offered} is {V4}")
    headers = {"Upgrade": SPDY, "Connection": "Upgrade", "X-Stream-Protocol-Version": V4}
    await connection.switch(headers)
    return SpdySession(connection)


async def sizes_of(inbox: Inbox) -> AsyncIterator[TerminalSize]:
    """Window sizes as clients send them: one flat JSON object after the other."""
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
        told = orjson.loads(text)
        width, height = told["Width"], told["Height"]
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
    """How a process ended, as clients turn it into their own exit code."""
    if code == 0:
        return success()
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
