"""One request to an agent: sent, answered with a head, then bytes for whoever takes them.

Reading stops with the head and goes on when somebody takes what follows, so nothing is kept without end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol, cast

import httptools
import orjson

from alcove.api.errors import ApiError, InternalError, from_status
from alcove.http.closing import hang_up
from alcove.http.upload import RequestUpload

HEAD_SECONDS_MAX = 30.0
HEAD_BYTES_MAX = 64 << 10
ERROR_BYTES_MAX = 64 << 10
WRITE_BUFFER_BYTES_MAX = 256 << 10


class Receiver(Protocol):
    """Who takes what an agent sends after its answer's head."""

    def take(self, data: bytes) -> None: ...

    def ended(self, is_whole: bool) -> None:
        """Nothing more comes. `is_whole`: the answer says itself that it is all."""
        ...

    def hold(self) -> None:
        """The agent reads too slowly: what is written now is kept in memory."""
        ...

    def release(self) -> None: ...


class AgentRequest(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.status = 0
        self.headers: dict[str, str] = {}
        """Of the answer; names in lower case, the last of several equal ones counts."""
        self.fields: list[tuple[bytes, bytes]] = []
        """The same as they came, each as often as it was said."""
        self.upload: RequestUpload | None = None
        """The request's body that is still being sent: it is read as the agent takes it."""
        self._answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._head_bytes = 0
        self._is_tunnel = False
        self._is_whole = False
        self._ends_with_connection = False
        """The answer does not tell its length: its end is the connection's."""
        self._early: list[bytes] = []
        self._receiver: Receiver | None = None

    async def send(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        """Sends the request; returns when its answer's head has come. Raises ConnectionError, TimeoutError."""
        self.begin(method, path, headers)
        await self.head(HEAD_SECONDS_MAX)

    def begin(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        """Sends the request's head; its body, if it has one, is written to the transport."""
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        self.transport.write("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def head(self, seconds_max: float) -> None:
        """Returns when the answer's head has come. Raises ConnectionError, TimeoutError."""
        async with asyncio.timeout(seconds_max):
            await self._answered

    def succeed(self, before: AgentRequest) -> None:
        """Speaks HTTP over the connection that a request before this one has made a tunnel, with what is behind it."""
        before.transport.set_protocol(self)
        self.connection_made(before.transport)
        for data in before._early:
            self.data_received(data)
        if not self.status:
            self.transport.resume_reading()

    async def body(self, bytes_max: int) -> bytes:
        """The whole of the answer's body. Raises ConnectionError."""
        collecting = _Collecting(bytes_max)
        self.follow(collecting)
        return await collecting.whole

    async def error(self) -> ApiError:
        """What an answer that is an error says."""
        try:
            told = orjson.loads(await self.body(ERROR_BYTES_MAX))
        except (orjson.JSONDecodeError, ConnectionError):
            told = None
        if not isinstance(told, dict):
            return InternalError(f"the node's agent answered with status {self.status}")
        return from_status(told)

    def follow(self, receiver: Receiver) -> None:
        """From here on `receiver` gets what comes, what has already come first."""
        self._receiver = receiver
        early, self._early = self._early, []
        for data in early:
            receiver.take(data)
        if self._is_whole or self.transport.is_closing():
            receiver.ended(self._is_whole)
        else:
            self.transport.resume_reading()

    def close(self) -> None:
        """What was written still goes out, if the agent takes it in time."""
        self._receiver = None
        hang_up(self.transport)

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)

    def data_received(self, data: bytes) -> None:
        if self._is_tunnel:
            self.on_body(data)
            return
        if not self.status:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._is_tunnel, self._is_whole = True, False
            if rest := data[upgrade.args[0] :]:
                self.on_body(rest)
        except httptools.HttpParserError:
            self.transport.abort()
        if not self.status and self._head_bytes > HEAD_BYTES_MAX:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._ends_with_connection and exc is None:
            self._is_whole = True
        if not self._answered.done():
            self._answered.set_exception(ConnectionResetError("the agent hung up"))
            self._answered.exception()  # Who waited may be gone.
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.ended(self._is_whole)
        if self.upload is not None:
            self.upload.resume()  # What comes is dropped; that it ended must be seen.

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

    # The parser's side

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")
        self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self.headers, self.fields = {}, []  # A word in between; the answer follows.
            return
        self.status = status
        chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        self._ends_with_connection = not chunked and "content-length" not in self.headers and status != 101
        if self._receiver is None:
            self.transport.pause_reading()
        if not self._answered.done():
            self._answered.set_result(None)

    def on_body(self, data: bytes) -> None:
        if self._receiver is not None:
            self._receiver.take(data)
        else:
            self._early.append(data)

    def on_message_complete(self) -> None:
        if not self.status:
            return
        self._is_whole = True
        receiver = self._receiver
        if receiver is not None and not self._is_tunnel and self.status != 101:
            self._receiver = None
            receiver.ended(True)


class _Collecting:
    """A receiver that keeps everything, up to a limit."""

    def __init__(self, bytes_max: int) -> None:
        self.whole: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._bytes_max = bytes_max
        self._data = bytearray()

    def take(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > self._bytes_max and not self.whole.done():
            self.whole.set_exception(ConnectionAbortedError("the agent's answer is too long"))

    def ended(self, is_whole: bool) -> None:
        if self.whole.done():
            return
        if is_whole:
            self.whole.set_result(bytes(self._data))
        else:
            self.whole.set_exception(ConnectionResetError("the agent hung up"))

    def hold(self) -> None:
        pass

    def release(self) -> None:
        pass
