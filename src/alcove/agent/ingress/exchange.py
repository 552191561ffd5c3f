"""Proxies one request and its response between a client and a backend.

Both bodies are streamed with back-pressure. A response may begin before the request has ended. A connection
whose state is uncertain is closed, so that data of one request is never taken for another's.
"""

import asyncio

from alcove.agent.ingress import headers
from alcove.agent.ingress.headers import ForwardedClient
from alcove.agent.ingress.limits import IngressLimits
from alcove.agent.ingress.routing_table import IngressTarget
from alcove.agent.ingress.upstream import BackendConnection, Upstreams
from alcove.http.errors import HttpError
from alcove.http.messages import HttpHead
from alcove.http.streams import HttpStream, MessageEvent, MessageMark
from alcove.http.writing import LAST_CHUNK, chunk

_RETRYABLE = (b"GET", b"HEAD", b"OPTIONS", b"TRACE")
_BODILESS = (204, 304)


class IngressError(Exception):
    """The ingress itself responds to the client with this status."""

    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(message)
        self.status = status


class UpstreamBroken(Exception):
    """The backend failed after the response had begun: the client's connection must be closed."""


class HttpExchange:
    def __init__(
        self,
        stream: HttpStream,
        limits: IngressLimits,
        upstreams: Upstreams,
    ) -> None:
        """`stream` is the client's."""
        self._stream = stream
        self._writer = stream.writer
        self._limits = limits
        self._upstreams = upstreams
        self.is_sent = False
        """Whether the whole request was read from the client."""

    async def run(
        self, head: HttpHead, host: str, path: bytes, target: IngressTarget, client: ForwardedClient
    ) -> bool:
        """Whether the client's connection can be reused. Raises IngressError, UpstreamBroken."""
        raw = headers.request(head, host, path, client)
        has_body = head.has_body
        connection = await self._connect(target)
        try:
            response_head = await self._send_and_receive_head(connection, raw, head, has_body)
        except ConnectionError:
            if not connection.is_used or has_body or head.method not in _RETRYABLE:
                raise IngressError(502, "the backend closed the connection") from None
            # It was a pooled connection, which the backend closed at the same time.
            connection.close()
            connection = await self._connect(target, fresh=True)
            try:
                response_head = await self._send_and_receive_head(connection, raw, head, has_body)
            except ConnectionError:
                raise IngressError(502, "the backend closed the connection") from None
        try:
            return await self._relay(connection, head, response_head)
        finally:
            await self._stop_sending()
            if not connection.writer.is_closing():
                self._upstreams.release(connection)
            else:
                connection.close()

    async def _connect(self, target: IngressTarget, *, fresh: bool = False) -> BackendConnection:
        try:
            return await self._upstreams.connect(target, fresh=fresh)
        except TimeoutError as error:
            raise IngressError(504, "connection to the backend timed out") from error
        except OSError as error:
            raise IngressError(502, "failed to connect to the backend") from error

    # The request

    async def _send_and_receive_head(
        self, connection: BackendConnection, raw: bytes, head: HttpHead, has_body: bool
    ) -> HttpHead:
        """Sends the request and waits for the head of its response. Raises IngressError, ConnectionError."""
        self._sending: asyncio.Task[None] | None = None
        connection.begin(head.method)
        if has_body:
            self._sending = asyncio.create_task(self._send(connection, raw, chunked=head.is_chunked))
        else:
            connection.writer.write(raw)
        if not has_body and not self.is_sent:
            # Read the end event of a request without a body.
            await self._stream.next(self._limits.stall_seconds_max)
            self.is_sent = True
        try:
            return await self._response_head(connection)
        except BaseException:
            await self._stop_sending()
            connection.close()
            raise

    async def _stop_sending(self) -> None:
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.cancel()
            await asyncio.wait([sending])
            if not sending.cancelled():
                sending.exception()

    async def _send(self, connection: BackendConnection, raw: bytes, *, chunked: bool) -> None:
        """Sends the request's head and body to the backend. Closes the backend's connection on failure, which
        also ends the response."""
        out, sent = [raw], 0
        try:
            while True:
                if not self._stream.has_event:
                    await self._flush(connection.writer, out)
                event = await self._stream.next(self._limits.stall_seconds_max)
                if event is MessageMark.END:
                    break
                if not isinstance(event, bytes):
                    raise ConnectionResetError("the client disconnected")
                sent += len(event)
                if sent > self._limits.body_bytes_max:
                    raise ConnectionResetError("the body is too large")
                out.append(chunk(event) if chunked else event)
            if chunked:
                out.append(LAST_CHUNK)
            await self._flush(connection.writer, out)
            self.is_sent = True
        except (OSError, TimeoutError, HttpError):
            connection.close()
            raise

    async def _flush(self, writer: asyncio.StreamWriter, out: list[bytes]) -> None:
        """Writes all buffered parts and waits until the peer has read enough. Raises OSError,
        TimeoutError."""
        if writer.is_closing():
            raise ConnectionResetError("the peer disconnected")
        if out:
            writer.write(b"".join(out))
            out.clear()
        if writer.transport.get_write_buffer_size():
            async with asyncio.timeout(self._limits.stall_seconds_max):
                await writer.drain()

    async def _response_head(self, connection: BackendConnection) -> HttpHead:
        """The head of the final response; 100 Continue is forwarded to the client."""
        while True:
            event = await self._next(connection, self._limits.response_seconds_max)
            if isinstance(event, HttpHead) and (event.status >= 200 or event.status == 101):
                return event
            if isinstance(event, HttpHead) and event.status == 100:
                self._writer.write(headers.response(event, chunked=False, keep_alive=True))
            elif event is MessageMark.LOST:
                raise ConnectionResetError

    async def _next(self, connection: BackendConnection, seconds: float) -> MessageEvent:
        try:
            return await connection.next(seconds)
        except TimeoutError as error:
            raise IngressError(504, "the backend did not respond in time") from error
        except HttpError as error:
            raise IngressError(502, "invalid response from the backend") from error

    # The response

    async def _relay(self, connection: BackendConnection, head: HttpHead, response_head: HttpHead) -> bool:
        if response_head.status == 101:
            return await self._tunnel(connection, head, response_head)
        is_bodiless = head.method == b"HEAD" or response_head.status in _BODILESS
        until_close = not is_bodiless and response_head.length is None and not response_head.is_chunked
        chunked = not is_bodiless and response_head.length is None and head.version == "1.1"
        is_framed = is_bodiless or chunked or response_head.length is not None
        # After an upgrade request that was not granted the parser cannot continue.
        keep = is_framed and self.is_sent and head.keep_alive and head.version == "1.1" and not head.upgrade
        out = [headers.response(response_head, chunked=chunked, keep_alive=keep)]
        try:
            await self._forward_body(connection, out, chunked=chunked, until_close=until_close)
            await self._flush(self._writer, out)
        except (IngressError, OSError, TimeoutError) as error:
            connection.close()
            raise UpstreamBroken from error
        if until_close or not response_head.keep_alive or not self.is_sent:
            connection.close()
        return keep and self.is_sent

    async def _forward_body(
        self, connection: BackendConnection, out: list[bytes], *, chunked: bool, until_close: bool
    ) -> None:
        """Forwards the response body. `out` holds parts to be sent before it, and at the end the remaining
        parts."""
        while True:
            if not connection.has_event:
                await self._flush(self._writer, out)
            event = await self._next(connection, self._limits.stall_seconds_max)
            if event is MessageMark.END or (event is MessageMark.LOST and until_close):
                break
            if not isinstance(event, bytes):
                raise ConnectionResetError("the backend disconnected")
            out.append(chunk(event) if chunked else event)
        if chunked:
            out.append(LAST_CHUNK)

    async def _tunnel(self, connection: BackendConnection, head: HttpHead, response_head: HttpHead) -> bool:
        """Relays bytes in both directions after a protocol upgrade."""
        if not headers.wants_websocket(head):
            raise IngressError(502, "the backend switched protocols without a request")
        self._writer.write(headers.response(response_head, chunked=False, keep_alive=True))
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pump(self._stream, connection))
                tasks.create_task(self._pump(connection, self._stream))
        except* (OSError, TimeoutError):
            pass
        finally:
            connection.close()
        return False

    async def _pump(self, source: HttpStream, sink: HttpStream) -> None:
        seconds = self._limits.tunnel_seconds_max
        while True:
            async with asyncio.timeout(seconds):
                data = await source.read()
            if not data:
                # The end of either side ends the tunnel: WebSockets send a close frame before they close.
                raise ConnectionResetError
            async with asyncio.timeout(seconds):
                await sink.write(data)
