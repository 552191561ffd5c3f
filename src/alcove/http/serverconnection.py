"""One client's connection to a server: requests are answered in the order in which they arrive.

A handler that does not need to wait responds within `data_received`, without a task. Requests that arrive
while one is being answered wait in a short queue; if it is full, the socket is not read. Each waiting request
is answered in an iteration of the loop of its own, so that other connections are served in between, and only
after the client has read the response before it. After a 101 the connection is no longer HTTP: its transport
gets another protocol, `Tunnel`, and this one is only notified when the connection is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from alcove.http.closing import CLOSED
from alcove.http.connections import ConnectionSlot
from alcove.http.errors import HttpError
from alcove.http.limits import WRITE_BUFFER_BYTES_MAX
from alcove.http.messages import (
    SLICE_BYTES,
    WHOLE_BODIES,
    HttpRequest,
    HttpResponse,
    ResponseStream,
    UpgradedConnection,
    slices,
)
from alcove.http.requests import RequestReceiver
from alcove.http.tunnel import Tunnel
from alcove.http.writing import CONTENT_LENGTH, CONTENT_TYPE, LAST_CHUNK, chunk, first_lines, last_response

if TYPE_CHECKING:
    from alcove.http.server import HttpServer

log = logging.getLogger(__name__)

HttpHandler = Callable[[HttpRequest], HttpResponse | Coroutine[Any, Any, HttpResponse]]


class HttpServerConnection(asyncio.Protocol):
    __slots__ = (
        "_has_answered",
        "_is_chunked",
        "_is_draining",
        "_is_queue_full",
        "_is_reading",
        "_receiver",
        "_refused",
        "_request",
        "_request_bytes",
        "_response",
        "_rest",
        "_server",
        "_stream",
        "_task",
        "_waiting",
        "_waiting_bytes",
        "address",
        "deadline",
        "is_answering",
        "paused",
        "peer",
        "slot",
        "transport",
    )

    def __init__(self, server: HttpServer, slot: ConnectionSlot) -> None:
        self._server = server
        self.slot = slot
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._receiver = RequestReceiver(self, server.limits)
        self.peer: object = None
        self.address = ""
        self.paused = False
        self.deadline = 0.0
        """The time at which the server closes this connection as idle or too slow; 0 for never."""
        self._waiting: deque[HttpRequest | bytes] = deque()
        """Received while another request was answered; bytes after a request to upgrade, which may be HTTP."""
        self._waiting_bytes = 0
        """Bytes that were received since the queue was empty, while another request was being answered."""
        self._is_queue_full = False
        self._is_reading = True
        self._has_answered = False
        """Whether one of the requests that were received together is answered already."""
        self._is_draining = False
        """Whether the next request waits until the client has read the last response."""
        self.is_answering = False
        self._request: HttpRequest | None = None
        self._request_bytes = 0
        """Size of a request whose response takes time."""
        self._response: HttpResponse | None = None
        self._rest: Iterator[bytes | memoryview] | None = None
        """What remains to be written of a large body."""
        self._task: asyncio.Task[None] | None = None
        self._stream: ResponseStream | None = None
        self._is_chunked = True
        """Whether the stream's bytes are sent as chunks."""
        self._refused: HttpError | None = None

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        self.address = self.slot.address
        self.peer = self._server.identify(transport.get_extra_info("ssl_object"))
        self._server.opened(self, self.slot)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.lost(self, self.slot)
        if self._stream is not None:
            self._stream.stop()
            self._stream = None
        self._rest = None
        self._waiting.clear()
        self._receiver.end()
        self._release()
        if self._task is not None:
            self._task.cancel()
        # Break reference cycles: otherwise the connection's TLS memory would wait for the garbage collector.
        self.transport = CLOSED
        self._request = None

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        if self._rest is not None:
            self._server.send_later(self)
        elif self._stream is not None:
            self._stream.resume()
        elif self._is_draining:
            self._is_draining = False
            self._answered()

    def data_received(self, data: bytes) -> None:
        if self._refused is not None:
            return
        self._has_answered = False
        if self.is_answering and self._receiver.upload is None:
            self._waiting_bytes += len(data)
        try:
            following = self._receiver.parser.feed(data)
        except HttpError as error:
            self._refuse(error)
            return
        self.count_held_bytes()
        if self._waiting_bytes > self._server.limits.pipelined_bytes_max:
            if self._stream is not None:
                # The stream may last for hours, and what waits behind it is in memory.
                self.transport.abort()
                return
            self._set_queue_full(True)
        if following is None:
            parser = self._receiver.parser
            if parser.unread_bytes and not self.is_answering and parser.is_in_head:
                # The deadline counts from the first part of a head, however many follow.
                self.deadline = min(self.deadline, self._server.head_deadline())
            return
        if not self.is_answering:
            if not following:
                return
            # The upgrade was declined and the request answered: these bytes are the next request.
            self._schedule_next()
        self._waiting.append(following)
        self._set_queue_full(True)

    # Called by the server

    def expire(self) -> None:
        """Close the connection because its deadline has passed."""
        if self.is_answering:
            # The client does not read the response; closing would wait until it does.
            self.transport.abort()
        else:
            self.transport.close()

    # Called by the receiver

    def streams_body(self, request: HttpRequest) -> bool:
        return self._server.streams_body(request)

    def received(self, request: HttpRequest) -> None:
        if self.is_answering or self._has_answered:
            if not self.is_answering:
                self._schedule_next()
            self._waiting.append(request)
            if len(self._waiting) >= self._server.limits.pipelined_max:
                self._set_queue_full(True)
        else:
            self._has_answered = True
            self._answer(request)

    def uploaded(self) -> None:
        if not self.is_answering:
            self._next()

    def update_reading(self) -> None:
        """Read the socket unless the queue is full or an upload is paused."""
        upload = self._receiver.upload
        is_reading = not self._is_queue_full and not (upload is not None and upload.is_paused)
        if is_reading == self._is_reading:
            return
        self._is_reading = is_reading
        if self.transport.is_closing():
            return
        if is_reading:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def count_held_bytes(self) -> None:
        """Count what is in memory of requests: those that wait or are received in part, and the current one."""
        if self.transport is CLOSED:
            return
        slot, is_busy = self.slot, self.is_answering or self._waiting_bytes
        if not is_busy and not slot.is_busy and not slot.held_bytes and self._receiver.is_idle:
            return
        held = max(self._waiting_bytes, self._receiver.held_bytes) + self._request_bytes
        upload = self._request.upload if self._request is not None else None
        if upload is not None and upload is not self._receiver.upload:
            held += upload.held_bytes
        held = held if held > self._server.limits.uncounted_bytes_max else 0
        self.slot.is_busy = self.is_answering
        if held != self.slot.held_bytes:
            self.slot.hold(held)

    def _set_queue_full(self, is_full: bool) -> None:
        self._is_queue_full = is_full
        self.update_reading()

    # Answering

    def _answer(self, request: HttpRequest) -> None:
        self.deadline = 0.0
        self.is_answering = True
        self._request = request
        began = perf_counter()
        result = self._server.answer(self, request)
        if isinstance(result, HttpResponse):
            self._respond(request, result)
        else:
            self._task = asyncio.get_running_loop().create_task(self._wait(request, result))
        self._server.reading.handled_seconds += perf_counter() - began
        if self.is_answering:
            self._request_bytes = request.size
            self.count_held_bytes()

    async def _wait(self, request: HttpRequest, result: Coroutine[Any, Any, HttpResponse]) -> None:
        try:
            response = await result
        except HttpError as error:
            response = self._server.render_error(error)
        except Exception:
            log.exception("request failed", extra={"method": request.method, "path": request.path})
            response = self._server.render_error(
                HttpError("an unexpected error occurred; the server's log has more")
            )
        self._task = None
        self._respond(request, response)

    def _respond(self, request: HttpRequest, response: HttpResponse) -> None:
        body = response.body
        if self.transport.is_closing():
            if not isinstance(body, WHOLE_BODIES):
                body.stop()
            if response.done is not None:
                response.done()
            return
        head = [first_lines(response.status), CONTENT_TYPE, response.content_type]
        for name, value in response.headers or ():
            head += (b"\r\n", name, b": ", value)
        if self._is_uploading and (self._receiver.owes_continue or self._receiver.is_endless):
            # A client that was not told to continue may send its body or not; another one may never end.
            request.keep_alive = False
            head.append(b"\r\nConnection: close")
        self._response = response
        if not isinstance(body, WHOLE_BODIES):
            self._begin(head, response)
            return
        length = len(body) if response.length is None else response.length
        head += (CONTENT_LENGTH, str(length).encode(), b"\r\n\r\n") if length >= 0 else (b"\r\n\r\n",)
        if request.method == "HEAD":
            self.transport.write(b"".join(head))
            self._done()
        elif isinstance(body, bytes) and len(body) <= SLICE_BYTES:
            head.append(body)
            self.transport.write(b"".join(head))
            self._done()
        else:
            self.transport.write(b"".join(head))
            self._rest = slices(body) if isinstance(body, bytes) else body.slices()
            self.deadline = self._server.response_deadline()
            self._server.send_later(self)

    def _begin(self, head: list[bytes], response: HttpResponse) -> None:
        if response.status == 101:
            self._upgrade(head, cast(UpgradedConnection, response.body))
            return
        body = cast(ResponseStream, response.body)
        self._is_chunked = response.length is None
        if response.length is None:
            head.append(b"\r\nTransfer-Encoding: chunked\r\n\r\n")
        else:
            head += (CONTENT_LENGTH, str(response.length).encode(), b"\r\n\r\n")
        self.transport.write(b"".join(head))
        self._stream = body
        body.start(self)

    def _upgrade(self, head: list[bytes], body: UpgradedConnection) -> None:
        """Switch to the upgraded connection; this protocol then only learns that the connection is lost."""
        del head[1:3]  # There is no body for a content type.
        self.transport.write(b"".join([*head, b"\r\n\r\n"]))
        early = self._waiting.popleft() if self._waiting else b""
        assert isinstance(early, bytes)
        Tunnel(self, body).begin(self.transport, early, is_paused=self.paused)
        self._set_queue_full(False)

    def write_slice(self) -> None:
        """Write one slice of a large body, unless the client reads too slowly; called by the server."""
        if self._rest is None or self.paused or self.transport.is_closing():
            return
        part = next(self._rest, None)
        if part is not None:
            self.transport.write(part)
            self._server.send_later(self)
        else:
            self._rest = None
            self._done()

    def _release(self) -> None:
        response, self._response = self._response, None
        if response is not None and response.done is not None:
            response.done()

    def _done(self) -> None:
        if self.paused and not self.transport.is_closing():
            # A client that sends requests and does not read would fill the memory with responses.
            self._is_draining = True
            self.deadline = self._server.response_deadline()
        else:
            self._answered()

    def _answered(self) -> None:
        self._release()
        self.is_answering = False
        self._request_bytes = 0
        upload = self._receiver.upload
        if upload is not None and self._is_uploading and not self._receiver.owes_continue:
            # If the connection were closed now, a client that is still sending could lose the response.
            upload.discard()
            is_kept = self._request is not None and self._request.keep_alive
            self.deadline = self._server.idle_deadline() if is_kept else self._server.linger_deadline()
        else:
            self._next()

    @property
    def _is_uploading(self) -> bool:
        """Whether the body of the request being answered is still being received."""
        upload = self._request.upload if self._request is not None else None
        return upload is not None and not upload.is_complete

    def _next(self) -> None:
        # It is not kept while the connection is idle: it may be large.
        request, self._request = self._request, None
        if self._server.stopping or request is None or not request.keep_alive:
            self.transport.close()
        elif self._waiting:
            self._schedule_next()
        elif self._refused is not None:
            self._refuse(self._refused)
        else:
            if self._waiting_bytes:
                self._empty_queue()
            self._idle()

    def _idle(self) -> None:
        """Set the deadline while no request is being answered; the next one may be received in part."""
        if self.slot.held_bytes:
            self.count_held_bytes()
        is_in_head = self._receiver.parser.is_in_head
        self.deadline = self._server.head_deadline() if is_in_head else self._server.idle_deadline()

    def _schedule_next(self) -> None:
        """Answer the next waiting request in the loop's next iteration."""
        self.deadline = 0.0
        self.is_answering = True
        asyncio.get_running_loop().call_soon(self._answer_next)

    def _answer_next(self) -> None:
        if not self._waiting or self.transport.is_closing():
            return
        following = self._waiting.popleft()
        self.is_answering = False
        if isinstance(following, bytes):
            # The upgrade was declined: these are further requests.
            self._idle()
            self._empty_queue()
            self.data_received(following)
            return
        if not self._waiting:
            self._empty_queue()
        self._answer(following)

    def _empty_queue(self) -> None:
        self._waiting_bytes = 0
        if self._is_queue_full:
            self._set_queue_full(False)

    def _refuse(self, error: HttpError) -> None:
        """Respond to a request that cannot be read to its end. Further data is dropped."""
        self._refused = error
        if self._is_uploading:
            # The handler may be waiting for the rest of the body, which cannot be parsed.
            self.transport.abort()
            return
        if self.is_answering:
            return
        self.transport.write(last_response(self._server.render_error(error)))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.deadline = self._server.linger_deadline()

    # Called by streams (messages.ResponseWriter)

    @property
    def buffered_bytes(self) -> int:
        return 0 if self.transport is CLOSED else self.transport.get_write_buffer_size()

    @property
    def closed(self) -> bool:
        return self.transport.is_closing()

    def write(self, data: bytes) -> None:
        self.transport.write(chunk(data) if self._is_chunked else data)

    def finish(self) -> None:
        self._stream = None
        if not self.transport.is_closing():
            if self._is_chunked:
                self.transport.write(LAST_CHUNK)
            self._done()

    def abort(self) -> None:
        self.transport.abort()
