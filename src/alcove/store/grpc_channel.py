"""Calls of gRPC to one endpoint, over a connection that is opened when it is needed, and again after it was lost."""

import asyncio
import ssl
from asyncio import Future
from collections import deque
from enum import IntEnum
from pathlib import Path
from struct import Struct as Packing
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from alcove.store.http2_connection import Headers, Http2Connection, Http2Error

CONNECT_SECONDS_MAX = 5.0
UNREAD_MESSAGES_MAX = 64
"""Messages of a stream that were received and not read; if there are more, the server is told to wait."""

_message_head = Packing(">BI")


class GrpcStatus(IntEnum):
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    OUT_OF_RANGE = 11
    UNAVAILABLE = 14


class Tls(Struct, frozen=True):
    """PEM files: the cluster's CA, and the client certificate with its key."""

    authority: Path
    certificate: Path | None = None
    key: Path | None = None
    server_name: str = ""
    """In the certificates of the cluster; if not set, that of the endpoint."""

    @classmethod
    def of(cls, directory: Path, server_name: str = "") -> "Tls":
        return cls(directory / "ca.crt", directory / "client.crt", directory / "client.key", server_name)


class GrpcError(Exception):
    """A call failed. `is_processed` is False if the server has certainly not acted on it."""

    def __init__(self, code: int, text: str, *, is_processed: bool = True) -> None:
        super().__init__(text)
        self.code = code
        self.is_processed = is_processed


class _Unary:
    """A call with one response."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.response: Future[bytes] = asyncio.get_running_loop().create_future()

    def received(self, data: bytes) -> bool:
        self._parts.append(data)
        return True

    def ended(self, headers: Headers) -> None:
        if self.response.done():
            return
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        if (error := _error(headers)) is not None:
            self.response.set_exception(error)
        elif len(data) < _message_head.size or _message_head.unpack_from(data) != (0, len(data) - 5):
            self.response.set_exception(
                GrpcError(GrpcStatus.UNAVAILABLE, "the response is not one plain message")
            )
        else:
            self.response.set_result(data[_message_head.size :])

    def failed(self, error: Http2Error) -> None:
        if not self.response.done():
            self.response.set_exception(_lost(error))


class GrpcStream:
    """A call with any number of responses."""

    def __init__(self, connection: Http2Connection, block: bytes, message: bytes) -> None:
        self._connection = connection
        self._parts: list[bytes] = []
        self._size = 0
        self._needed = _message_head.size
        """Bytes until the next message is whole."""
        self._messages: deque[bytes] = deque()
        self._error: GrpcError | None = None
        self._is_ended = False
        self._waiter: Future[None] | None = None
        self._number = connection.open(block, self, _packed(message), is_last=False)

    async def read(self) -> bytes | None:
        """The next message; None after the last one. Raises GrpcError."""
        while not self._messages:
            self._connection.resume(self._number)
            if self._error is not None:
                raise self._error
            if self._is_ended:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._messages.popleft()

    def cancel(self) -> None:
        self._connection.cancel(self._number)

    # Http2Stream

    def received(self, data: bytes) -> bool:
        self._parts.append(data)
        self._size += len(data)
        if self._size < self._needed:
            return len(self._messages) < UNREAD_MESSAGES_MAX
        # Joined once for each message: one with the history of a large store has hundreds of megabytes.
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        at, size = 0, len(data)
        self._needed = _message_head.size
        while size - at >= _message_head.size:
            is_compressed, length = _message_head.unpack_from(data, at)
            if is_compressed:
                raise Http2Error("a compressed message was received")
            if size - at < _message_head.size + length:
                self._needed = _message_head.size + length
                break
            at += _message_head.size + length
            self._messages.append(data[at - length : at])
        self._parts, self._size = [data[at:]], size - at
        self._wake()
        return len(self._messages) < UNREAD_MESSAGES_MAX

    def ended(self, headers: Headers) -> None:
        self._error = _error(headers)
        self._is_ended = True
        self._wake()

    def failed(self, error: Http2Error) -> None:
        self._error = _lost(error)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class GrpcChannel:
    def __init__(self, endpoint: str, tls: Tls | None = None) -> None:
        """`endpoint` is `host:port`."""
        self._endpoint = endpoint
        self._host, _, port = endpoint.rpartition(":")
        self._host = self._host.strip("[]")
        self._port = int(port)
        self._tls = tls
        self._context = _context(tls) if tls is not None else None
        self._connection: Http2Connection | None = None
        self._connecting: asyncio.Task[Http2Connection] | None = None
        self._is_closed = False
        self._blocks: dict[str, bytes] = {}

    async def call(self, path: str, message: bytes, seconds: float) -> bytes:
        """Raises GrpcError."""
        try:
            async with asyncio.timeout(seconds):
                connection = await self._connected()
                unary = _Unary()
                number = connection.open(self._block(path), unary, _packed(message), is_last=True)
                try:
                    return await unary.response
                except asyncio.CancelledError:
                    connection.cancel(number)
                    raise
        except TimeoutError as error:
            raise GrpcError(
                GrpcStatus.DEADLINE_EXCEEDED, f"no response within {seconds:.0f} seconds"
            ) from error

    async def stream(self, path: str, message: bytes) -> GrpcStream:
        """Raises GrpcError."""
        return GrpcStream(await self._connected(), self._block(path), message)

    async def close(self) -> None:
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        if self._connection is not None:
            self._connection.abort(Http2Error("the channel is closed"))

    async def _connected(self) -> Http2Connection:
        """A connection on which a stream may be opened at once."""
        try:
            while True:
                connection = self._connection
                if connection is None or not connection.is_open:
                    connection = await self._connect()
                if connection.has_room():
                    return connection
                await connection.wait_for_room()
        except Http2Error as error:
            raise _lost(error) from error

    async def _connect(self) -> Http2Connection:
        """Calls that need a connection wait for the same one."""
        if self._is_closed:
            raise GrpcError(GrpcStatus.UNAVAILABLE, "the channel is closed", is_processed=False)
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._open())
            self._connecting.add_done_callback(self._opened)
        try:
            return await asyncio.shield(self._connecting)
        except asyncio.CancelledError:
            # Closing the channel cancels the attempt; that must not look like a cancellation of the caller.
            task = asyncio.current_task()
            if self._is_closed and task is not None and not task.cancelling():
                raise GrpcError(GrpcStatus.UNAVAILABLE, "the channel is closed") from None
            raise

    def _opened(self, task: "asyncio.Task[Http2Connection]") -> None:
        self._connecting = None
        if not task.cancelled() and task.exception() is None:
            self._connection = task.result()

    async def _open(self) -> Http2Connection:
        connection = None
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                name = (self._tls.server_name or self._host) if self._tls is not None else None
                _, connection = await asyncio.get_running_loop().create_connection(
                    Http2Connection, self._host, self._port, ssl=self._context, server_hostname=name
                )
                await connection.ready
                return connection
        except (OSError, Http2Error) as error:
            if connection is not None:
                connection.abort(Http2Error("the connection was not opened in time"))
            text = f"failed to connect to {self._endpoint}: {error or type(error).__name__}"
            raise GrpcError(GrpcStatus.UNAVAILABLE, text, is_processed=False) from error

    def _block(self, path: str) -> bytes:
        """The headers of a call, uncompressed."""
        block = self._blocks.get(path)
        if block is None:
            named = self._tls.server_name if self._tls is not None else ""
            fields = {
                ":method": "POST",
                ":scheme": "http" if self._tls is None else "https",
                ":path": path,
                ":authority": named or self._endpoint,
                "content-type": "application/grpc",
                "te": "trailers",
                "user-agent": "alcove",
            }
            block = b"".join(b"\0" + _text(name) + _text(value) for name, value in fields.items())
            self._blocks[path] = block
        return block


def _packed(message: bytes) -> bytes:
    return _message_head.pack(0, len(message)) + message


def _text(value: str) -> bytes:
    """A string of HPACK. Names of hosts may have more than the 126 bytes that fit into one byte of length."""
    encoded = value.encode()
    if len(encoded) < 127:
        return bytes([len(encoded)]) + encoded
    rest, packed = len(encoded) - 127, bytearray([127])
    while rest >= 128:
        packed.append(rest % 128 | 128)
        rest //= 128
    return bytes(packed) + bytes([rest]) + encoded


def _error(headers: Headers) -> GrpcError | None:
    status = headers.get(b"grpc-status", b"")
    if status == b"0":
        return None
    if not status.isdigit():
        found = headers.get(b":status", b"?").decode(errors="replace")
        return GrpcError(GrpcStatus.UNAVAILABLE, f"the response is not gRPC's (HTTP status {found})")
    text = unquote_to_bytes(headers.get(b"grpc-message", b"")).decode(errors="replace")
    return GrpcError(int(status), text or f"status {int(status)}")


def _lost(error: Http2Error) -> GrpcError:
    return GrpcError(GrpcStatus.UNAVAILABLE, str(error), is_processed=error.is_processed)


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.authority)
    context.set_alpn_protocols(["h2"])
    if tls.certificate is not None:
        context.load_cert_chain(tls.certificate, tls.key)
    return context
