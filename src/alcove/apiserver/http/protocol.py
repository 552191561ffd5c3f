"""One client connection: HTTP/1.1 parsed by httptools, answered in order.

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

import httptools

from alcove.api.errors import ApiError, BadRequest, InternalError
from alcove.apiserver.http.closed import CLOSED
from alcove.apiserver.http.limits import BODY_BYTES_MAX, HEAD_BYTES_MAX, head_too_large, too_large
from alcove.apiserver.http.messages import (
    REASONS,
    Request,
    Response,
    Stream,
    Takeover,
    error_response,
)
from alcove.apiserver.http.tunnel import Tunnel
from alcove.apiserver.http.upload import Upload
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
_REPEATED = ("impersonate-", "x-stream-protocol-version")
_HEADS = {
    code: b"HTTP/1.1 %d %s\r\nCache-Control: no-cache, private" % (code, text)
    for code, text in REASONS.items()
}


class Connection(asyncio.Protocol):
    __slots__ = (
        "_answering",
        "_body",
        "_body_bytes",
        "_head_bytes",
        "_headers",
        "_impersonation",
        "_is_chunked",
        "_reads_body",
        "_refused",
        "_request",
        "_response",
        "_rest",
        "_server",
        "_stream",
        "_task",
        "_unread_bytes",
        "_upload",
        "_url",
        "_waiting",
        "address",
        "certificate",
        "deadline",
        "parser",
        "paused",
        "transport",
    )

    def __init__(self, server: Server) -> None:
        self._server = server
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.parser = httptools.HttpRequestParser(self)
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
        self._upload: Upload | None = None
        """The body of the request that is being answered, while it comes."""
        self._refused: ApiError | None = None
        self._reset()

    def _reset(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._impersonation: list[tuple[str, str]] = []
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._head_bytes = 0
        self._unread_bytes = 0
        """Received since the last whole request, while its head is not complete."""
        self._reads_body = False

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
        self._upload = None
        self._release()
        if self._task is not None:
            self._task.cancel()
        # Parser and transport hold this object as it holds them: left so, each connection would wait, with all the
        # memory of its TLS, for somebody to look for such circles.
        del self.parser
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
        if not self._reads_body:
            self._unread_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self.parser = httptools.HttpRequestParser(self)
            rest = data[upgrade.args[0] :]
            if self._answering:
                self._waiting.append(rest)
                self.transport.pause_reading()
            elif rest:
                # The request was answered as if it had not asked; what follows is the next request.
                self.data_received(rest)
            return
        except httptools.HttpParserError as error:
            cause = error.__context__
            known = cause if isinstance(cause, ApiError) else BadRequest(f"malformed HTTP request: {error}")
            self._refuse(known)
            return
        if not self._reads_body and self._unread_bytes > HEAD_BYTES_MAX:
            self._refuse(head_too_large())

    # The parser's side

    def on_message_begin(self) -> None:
        self._reset()

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._head_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        header = name.decode("latin-1").lower()
        if header.startswith(_REPEATED):
            self._repeated(header, value)
        else:
            self._headers[header] = value.decode("latin-1")

    def _repeated(self, header: str, value: bytes) -> None:
        """Headers of which not the last counts but each."""
        text = value.decode("latin-1")
        if header.startswith("impersonate-"):
            self._headers[header] = text
            self._impersonation.append((header, value.decode("utf-8", "replace")))
        else:
            known = self._headers.get(header)
            self._headers[header] = f"{known}, {text}" if known else text

    def on_headers_complete(self) -> None:
        if self._head_bytes > HEAD_BYTES_MAX:
            raise head_too_large()
        self._reads_body = True
        length = self._headers.get("content-length")
        if b"/proxy" in self._url and not self._answering and self._begin_upload(length):
            return
        if length is not None and int(length) > BODY_BYTES_MAX:
            raise too_large()
        if self._headers.get("expect", "").lower() == "100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _begin_upload(self, length: str | None) -> bool:
        """Whether the request is handled now, and its body as it comes."""
        is_chunked = "transfer-encoding" in self._headers
        has_body = is_chunked or length not in (None, "0")
        request = self._received()
        if not has_body or "upgrade" in self._headers or not self._server.hands_on(request.path):
            return False
        if self._headers.get("expect", "").lower() == "100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._upload = request.upload = Upload(self.transport, None if is_chunked else int(length or 0))
        self.deadline = 0.0
        self._answer(request)
        return True

    def on_body(self, body: bytes) -> None:
        if self._upload is not None:
            self._upload.received(body)
            return
        self._body_bytes += len(body)
        if self._body_bytes > BODY_BYTES_MAX:
            raise too_large()
        self._body.append(body)

    def _received(self) -> Request:
        path, _, query = self._url.partition(b"?")
        method = self.parser.get_method().decode("ascii")
        return Request(
            method,
            path.decode("latin-1"),
            query.decode("latin-1"),
            self._headers,
            b"".join(self._body),
            self.certificate,
            self.address,
            self.parser.should_keep_alive(),
            self._impersonation,
        )

    def on_message_complete(self) -> None:
        self._reads_body = False
        self._unread_bytes = 0
        if self._upload is not None:
            self._end_upload(self._upload)
            return
        request = self._received()
        self.deadline = 0.0
        if self._answering:
            self._waiting.append(request)
            if len(self._waiting) >= PIPELINED_MAX:
                self.transport.pause_reading()
        else:
            self._answer(request)

    def _end_upload(self, upload: Upload) -> None:
        self._upload = None
        upload.finished()
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
        if self._upload is not None:
            # Hanging up on a client that still sends would take the answer from it.
            self._upload.discard()
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
        if self._upload is not None:
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
