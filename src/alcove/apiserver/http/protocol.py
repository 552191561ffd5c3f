"""One client connection: HTTP/1.1, received (`http/receiving.py`) and answered in order.

A handler that needs no waiting answers within `data_received`: no task is made for it. Requests
that arrive while one is being answered wait in a short queue; beyond it the socket is not read. After a 101 the
connection is no longer HTTP: its transport gets another protocol (`http/tunnel.py`), and this one is not asked again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

from alcove.api.errors import ApiError, InternalError
from alcove.apiserver.http.closed import CLOSED
from alcove.apiserver.http.messages import (
    REASONS,
    Request,
    Response,
    Stream,
    Takeover,
    error_response,
)
from alcove.apiserver.http.receiving import Receiving
from alcove.apiserver.http.tunnel import Tunnel
from alcove.apiserver.identity import Identity

if TYPE_CHECKING:
    from alcove.apiserver.http.server import Server

log = logging.getLogger(__name__)

Handler = Callable[[Request], Response | Coroutine[Any, Any, Response]]

PIPELINED_MAX = 8
WRITE_BUFFER_BYTES_MAX = 256 * 1024
SLICE_BYTES = 256 * 1024
"""Large bodies are written in slices of this size, so that other connections get their turn."""

_LENGTH = b"\r\nContent-Length: "
_TYPE = b"\r\nContent-Type: "
_HEADS = {
    code: b"HTTP/1.1 %d %s\r\nCache-Control: no-cache, private" % (code, text)
    for code, text in REASONS.items()
}


class Connection(asyncio.Protocol):
    __slots__ = (
        "_answering",
        "_is_chunked",
        "_receiving",
        "_refused",
        "_request",
        "_response",
        "_rest",
        "_server",
        "_stream",
        "_task",
        "_waiting",
        "address",
        "certificate",
        "deadline",
        "paused",
        "transport",
    )

    def __init__(self, server: Server) -> None:
        self._server = server
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._receiving = Receiving(self)
        self.certificate: Identity | ApiError | None = None
        self.address = ""
        self.paused = False
        self.deadline = 0.0
        """When the server may close this connection for idling or dawdling; 0: never."""
        self._waiting: deque[Request | bytes] = deque()
        """What came while another request was being answered; bytes follow a request to change the protocol,
        and whose they are is not known before it is answered."""
        self._answering = False
        self._request: Request | None = None
        self._response: Response | None = None
        self._rest: memoryview | None = None
        self._task: asyncio.Task[None] | None = None
        self._stream: Stream | None = None
        self._is_chunked = True
        """The stream's bytes are sent as chunks."""
        self._refused: ApiError | None = None

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        peer = transport.get_extra_info("peername")
        self.address = peer[0] if isinstance(peer, tuple) else ""
        self.certificate = self._server.identify(transport.get_extra_info("ssl_object"))
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.lost(self)
        if self._stream is not None:
            self._stream.stop()
            self._stream = None
        self._rest = None
        self._receiving.end()
        self._release()
        if self._task is not None:
            self._task.cancel()
        # The transport holds this object as it holds the transport: left so, each connection would wait, with all the
        # memory of its TLS, for somebody to look for such circles.
        self.transport = CLOSED

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        if self._rest is not None:
            self._write_rest()
        elif self._stream is not None:
            self._stream.resume()

    def data_received(self, data: bytes) -> None:
        if self._refused is not None:
            return
        try:
            following = self._receiving.feed(data)
        except ApiError as error:
            self._refuse(error)
            return
        if following is None:
            return
        if self._answering:
            self._waiting.append(following)
            self.transport.pause_reading()
        elif following:
            # The request was answered as if it had not asked; what follows is the next request.
            self.data_received(following)

    # What is received

    def hands_on(self, path: str) -> bool:
        return not self._answering and self._server.hands_on(path)

    def received(self, request: Request) -> None:
        self.deadline = 0.0
        if self._answering:
            self._waiting.append(request)
            if len(self._waiting) >= PIPELINED_MAX:
                self.transport.pause_reading()
        else:
            self._answer(request)

    def uploaded(self) -> None:
        if not self._answering:
            self._next()

    # Answering

    def _answer(self, request: Request) -> None:
        self._answering = True
        self._request = request
        result = self._server.handle(request)
        if isinstance(result, Response):
            self._respond(request, result)
        else:
            self._task = asyncio.get_running_loop().create_task(self._wait(request, result))

    async def _wait(self, request: Request, result: Coroutine[Any, Any, Response]) -> None:
        try:
            response = await result
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("request failed", extra={"method": request.method, "path": request.path})
            response = error_response(
                InternalError("an unexpected error occurred; the server's log has more")
            )
        self._task = None
        self._respond(request, response)

    def _respond(self, request: Request, response: Response) -> None:
        body = response.body
        if self.transport.is_closing():
            if not isinstance(body, bytes):
                body.stop()
            if response.done is not None:
                response.done()
            return
        head = [_HEADS.get(response.status) or _head(response.status), _TYPE, response.content_type]
        for name, value in response.headers or ():
            head += (b"\r\n", name, b": ", value)
        self._response = response
        if not isinstance(body, bytes):
            self._begin(head, response)
            return
        length = len(body) if response.length is None else response.length
        head += (_LENGTH, str(length).encode(), b"\r\n\r\n") if length >= 0 else (b"\r\n\r\n",)
        if len(body) <= SLICE_BYTES:
            if request.method != "HEAD":
                head.append(body)
            self.transport.write(b"".join(head))
            self._done()
        else:
            self.transport.write(b"".join(head))
            self._rest = memoryview(body if request.method != "HEAD" else b"")
            self._write_rest()

    def _begin(self, head: list[bytes], response: Response) -> None:
        if response.status == 101:
            self._hand_over(head, cast(Takeover, response.body))
            return
        body = cast(Stream, response.body)
        self._is_chunked = response.length is None
        if response.length is None:
            head.append(b"\r\nTransfer-Encoding: chunked\r\n\r\n")
        else:
            head += (_LENGTH, str(response.length).encode(), b"\r\n\r\n")
        self.transport.write(b"".join(head))
        self._stream = body
        body.start(self)

    def _hand_over(self, head: list[bytes], body: Takeover) -> None:
        """From here on the connection's bytes are not HTTP's; only its end is still told to this protocol."""
        del head[1:3]  # There is no body for a content type.
        self.transport.write(b"".join([*head, b"\r\n\r\n"]))
        self.transport.set_protocol(Tunnel(self, body))
        body.start(self.transport)
        if self.paused:
            body.pause()
        if self._waiting and isinstance(early := self._waiting.popleft(), bytes):
            if early:
                body.received(early)
            self.transport.resume_reading()

    def _write_rest(self) -> None:
        """Writes one slice of a large body; the next one after other connections had their turn."""
        if self._rest is None or self.paused or self.transport.is_closing():
            return
        part, self._rest = self._rest[:SLICE_BYTES], self._rest[SLICE_BYTES:]
        self.transport.write(part)
        if self._rest:
            asyncio.get_running_loop().call_soon(self._write_rest)
        else:
            self._rest = None
            self._done()

    def _release(self) -> None:
        response, self._response = self._response, None
        if response is not None and response.done is not None:
            response.done()

    def _done(self) -> None:
        self._release()
        self._answering = False
        if self._receiving.upload is not None:
            # Hanging up on a client that still sends would take the answer from it.
            self._receiving.upload.discard()
            self.deadline = self._server.idle_deadline()
        else:
            self._next()

    def _next(self) -> None:
        assert self._request is not None
        if self._refused is not None or self._server.stopping or not self._request.keep_alive:
            self.transport.close()
        elif self._waiting:
            self._answer_next(self._waiting.popleft())
        else:
            self.deadline = self._server.idle_deadline()

    def _answer_next(self, following: Request | bytes) -> None:
        if isinstance(following, bytes):
            # The protocol was not changed: more requests.
            self.deadline = self._server.idle_deadline()
            self.transport.resume_reading()
            self.data_received(following)
            return
        if len(self._waiting) == PIPELINED_MAX - 1 and isinstance(self._waiting[-1], Request):
            self.transport.resume_reading()
        self._answer(following)

    def _refuse(self, error: ApiError) -> None:
        """Answers a request that cannot be read to its end, and closes."""
        self._refused = error
        if self._receiving.upload is not None:
            # Its answer may wait for a rest that is never understood.
            self.transport.abort()
            return
        if self._answering:
            return
        response = error_response(error)
        assert isinstance(response.body, bytes)
        head = (_HEADS.get(error.code) or _head(error.code)) + _TYPE + response.content_type
        length = _LENGTH + str(len(response.body)).encode()
        self.transport.write(head + length + b"\r\nConnection: close\r\n\r\n" + response.body)
        self.transport.close()

    # The streams' side (messages.Writer)

    @property
    def closed(self) -> bool:
        return self.transport.is_closing()

    def write(self, data: bytes) -> None:
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)

    def finish(self) -> None:
        self._stream = None
        if not self.transport.is_closing():
            if self._is_chunked:
                self.transport.write(b"0\r\n\r\n")
            self._done()

    def abort(self) -> None:
        self.transport.abort()


def _head(code: int) -> bytes:
    return b"HTTP/1.1 %d Status\r\nCache-Control: no-cache, private" % code
