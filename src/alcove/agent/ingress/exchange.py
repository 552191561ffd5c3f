"""One request and its answer, between a client and a backend.

Both bodies pass in pieces, no faster than the other side takes them. An answer may begin before the request has
ended. When a connection's state is in doubt, it is closed: nothing of one request is ever taken for another's.
"""

import asyncio
from collections.abc import Callable

from alcove.agent.ingress import headers
from alcove.agent.ingress.headers import ForwardedClient
from alcove.agent.ingress.limits import IngressLimits
from alcove.agent.ingress.routing_table import IngressTarget
from alcove.agent.ingress.upstream import BackendConnection, Upstreams
from alcove.http.errors import HttpError
from alcove.http.messages import HttpHead
from alcove.http.streams import HttpStream, MessageEvent, MessageMark
from alcove.http.writing import LAST_CHUNK, chunk

_REPEATABLE = (b"GET", b"HEAD", b"OPTIONS", b"TRACE")
_BODILESS = (204, 304)


class IngressError(Exception):
    """The client gets this status from us."""

    def __init__(self, status: int, why: str = "") -> None:
        super().__init__(why)
        self.status = status


class UpstreamBroken(Exception):
    """The answer had begun: nothing can be said any more but by closing."""


class HttpExchange:
    def __init__(
        self,
        stream: HttpStream,
        limits: IngressLimits,
        upstreams: Upstreams,
        told: Callable[[int], None],
    ) -> None:
        """`stream`: the client's. `told` hears the status that the client is answered with."""
        self._stream = stream
        self._writer = stream.writer
        self._limits = limits
        self._upstreams = upstreams
        self._told = told
        self.is_sent = False
        """The whole request was taken from the client."""

    async def run(
        self, head: HttpHead, host: str, path: bytes, target: IngressTarget, client: ForwardedClient
    ) -> bool:
        """Whether the client's connection may go on. Raises Refused, Broken."""
        raw = headers.request(head, host, path, client)
        has_body = head.has_body
        connection = await self._connect(target)
        try:
            answer = await self._ask(connection, raw, head, has_body)
        except ConnectionError:
            if not connection.is_used or has_body or head.method not in _REPEATABLE:
                raise IngressError(502, "the backend closed the connection") from None
            # It had been kept, and the backend was about to close it.
            connection.close()
            connection = await self._connect(target, fresh=True)
            try:
                answer = await self._ask(connection, raw, head, has_body)
            except ConnectionError:
                raise IngressError(502, "the backend closed the connection") from None
        try:
            return await self._relay(connection, head, answer)
        finally:
            await self._stop_sending()
            if not connection.writer.is_closing():
                self._upstreams.give_back(connection)

    async def _connect(self, target: IngressTarget, *, fresh: bool = False) -> BackendConnection:
        try:
            return await self._upstreams.connect(target, fresh=fresh)
        except TimeoutError as error:
            raise IngressError(504, "the backend does not accept the connection") from error
        except OSError as error:
            raise IngressError(502, "the backend is not reached") from error

    # The request

    async def _ask(
        self, connection: BackendConnection, raw: bytes, head: HttpHead, has_body: bool
    ) -> HttpHead:
        """Sends the request, and waits for the head of its answer. Raises Refused, ConnectionError."""
        self._sending: asyncio.Task[None] | None = None
        connection.begin(head.method)
        if has_body:
            self._sending = asyncio.create_task(self._send(connection, raw, chunked=head.is_chunked))
        else:
            connection.writer.write(raw)
        if not has_body and not self.is_sent:
            # Of a request without a body the end is all that is left.
            await self._stream.next(self._limits.stall_seconds_max)
            self.is_sent = True
        try:
            return await self._first(connection)
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
        """The request's head and body, to the backend. A fault closes the backend's connection: its answer ends with it."""
        out, sent = [raw], 0
        try:
            while True:
                if not self._stream.has_event:
                    await self._flush(connection.writer, out)
                event = await self._stream.next(self._limits.stall_seconds_max)
                if event is MessageMark.END:
                    break
                if not isinstance(event, bytes):
                    raise ConnectionResetError("the client went away")
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
        """What has come together goes together; no faster than the other side takes it. Raises OSError, TimeoutError."""
        if writer.is_closing():
            raise ConnectionResetError("the other side went away")
        if out:
            writer.write(b"".join(out))
            out.clear()
        if writer.transport.get_write_buffer_size():
            async with asyncio.timeout(self._limits.stall_seconds_max):
                await writer.drain()

    async def _first(self, connection: BackendConnection) -> HttpHead:
        """The head of the answer proper; what comes before it (100 Continue) is passed on."""
        while True:
            event = await self._next(connection, self._limits.answer_seconds_max)
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
            raise IngressError(504, "the backend does not answer") from error
        except HttpError as error:
            raise IngressError(502, "the backend's answer is not HTTP") from error

    # The answer

    async def _relay(self, connection: BackendConnection, head: HttpHead, answer: HttpHead) -> bool:
        if answer.status == 101:
            return await self._tunnel(connection, head, answer)
        silent = head.method == b"HEAD" or answer.status in _BODILESS
        by_end = not silent and answer.length is None and not answer.is_chunked
        chunked = not silent and answer.length is None and head.version == "1.1"
        is_framed = silent or chunked or answer.length is not None
        # A wish for another protocol that was not granted leaves the parser nowhere.
        keep = is_framed and self.is_sent and head.keep_alive and head.version == "1.1" and not head.upgrade
        self._told(answer.status)
        out = [headers.response(answer, chunked=chunked, keep_alive=keep)]
        try:
            await self._pass_body(connection, out, chunked=chunked, by_end=by_end)
            await self._flush(self._writer, out)
        except (IngressError, OSError, TimeoutError) as error:
            connection.close()
            raise UpstreamBroken from error
        if by_end or not answer.keep_alive or not self.is_sent:
            connection.close()
        return keep and self.is_sent

    async def _pass_body(
        self, connection: BackendConnection, out: list[bytes], *, chunked: bool, by_end: bool
    ) -> None:
        """`out` is what goes before it, and at the end what is left to be sent."""
        while True:
            if not connection.has_event:
                await self._flush(self._writer, out)
            event = await self._next(connection, self._limits.stall_seconds_max)
            if event is MessageMark.END or (event is MessageMark.LOST and by_end):
                break
            if not isinstance(event, bytes):
                raise ConnectionResetError("the backend went away")
            out.append(chunk(event) if chunked else event)
        if chunked:
            out.append(LAST_CHUNK)

    async def _tunnel(self, connection: BackendConnection, head: HttpHead, answer: HttpHead) -> bool:
        """Another protocol from here on, in which bytes are just bytes."""
        if not headers.wants_websocket(head):
            raise IngressError(502, "the backend changed the protocol unasked")
        self._told(answer.status)
        self._writer.write(headers.response(answer, chunked=False, keep_alive=True))
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
                # Either side's end is the tunnel's: WebSockets say goodbye before they close.
                raise ConnectionResetError
            async with asyncio.timeout(seconds):
                await sink.write(data)
