"""The TLS layer of a connection whose handshake is complete: the protocol of the socket's transport, and the
transport of the connection above it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from msgspec import Struct

from alcove.http.closing import FLUSH_SECONDS_MAX

READ_BYTES_MAX = 16 << 10
"""Bytes that are received and decrypted in one iteration of the event loop: they may be hundreds of messages
of TLS itself. Not less than the data of one TLS record, so that a read leaves no decrypted data behind."""


class TlsSession(Struct, frozen=True):
    tls: ssl.SSLObject
    incoming: ssl.MemoryBIO
    """Received bytes that `tls` has not read."""
    outgoing: ssl.MemoryBIO
    """Bytes of `tls` that are not sent."""


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    __slots__ = ("_buffer", "_has_to_wait", "_is_paused", "_protocol", "_schedule", "_session", "_socket")

    def __init__(
        self,
        session: TlsSession,
        protocol: asyncio.Protocol,
        buffer: memoryview | None = None,
        schedule: Callable[[TlsTransport], None] | None = None,
    ) -> None:
        """`buffer` has READ_BYTES_MAX bytes; transports of one event loop may share it. `schedule` is called when
        data is received, and calls `read_now`, or `read_later` before that (`ReadingTurns`)."""
        super().__init__()
        self._session = session
        self._protocol: asyncio.Protocol | asyncio.BufferedProtocol = protocol
        self._socket: asyncio.Transport = cast(asyncio.Transport, None)
        self._buffer = memoryview(bytearray(READ_BYTES_MAX)) if buffer is None else buffer
        self._schedule = schedule
        self._is_paused = False
        self._has_to_wait = False
        """Whether received data waits for its turn to be read."""

    # Called by the socket's transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self._protocol.connection_made(self)
        if self._session.incoming.pending:
            # The peer has sent more than the end of its handshake. Not now: uvloop begins to read after this, also if reading was
            # paused meanwhile, and data that waits for its turn would be received without end.
            asyncio.get_running_loop().call_soon(self._received)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._session.incoming.write(self._buffer[:nbytes])
        self._received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def _received(self) -> None:
        if self._schedule is None:
            self.read_now()
        elif not self._has_to_wait:
            self._schedule(self)

    # Called by `schedule`

    def read_later(self) -> None:
        self._has_to_wait = True
        if not self._socket.is_closing():
            self._socket.pause_reading()

    def read_now(self) -> None:
        if self._socket.is_closing():
            return
        if self._has_to_wait:
            self._has_to_wait = False
            if not self._is_paused:
                self._socket.resume_reading()
        incoming, read = self._session.incoming, self._session.tls.read
        try:
            while incoming.pending and not self._is_paused and not self._socket.is_closing():
                data = read(READ_BYTES_MAX)
                if not data:
                    self.close()
                    return
                if isinstance(self._protocol, asyncio.BufferedProtocol):
                    self._fill(data)
                else:
                    self._protocol.data_received(data)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self._socket.abort()
            return
        self._flush()

    def _fill(self, data: bytes) -> None:
        """Deliver to TLS within TLS: a tunnel that this connection carries."""
        protocol = cast(asyncio.BufferedProtocol, self._protocol)
        while data:
            buffer = memoryview(protocol.get_buffer(len(data)))
            part, data = data[: len(buffer)], data[len(buffer) :]
            buffer[: len(part)] = part
            protocol.buffer_updated(len(part))

    def _flush(self) -> None:
        outgoing = self._session.outgoing
        if outgoing.pending:
            self._socket.write(outgoing.read())

    # Called by the protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._session.tls if name == "ssl_object" else self._socket.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast("asyncio.Protocol | asyncio.BufferedProtocol", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._socket.is_closing():
            return
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._session.tls.write(rest) :]
        except ssl.SSLError:
            self._socket.abort()
        else:
            self._flush()

    def close(self) -> None:
        if self._socket.is_closing():
            return
        with suppress(ssl.SSLError):
            self._session.tls.unwrap()
        self._flush()
        if self._socket.get_write_buffer_size():
            # A peer that does not read would keep the socket open.
            asyncio.get_running_loop().call_later(FLUSH_SECONDS_MAX, self._socket.abort)
        self._socket.close()

    def abort(self) -> None:
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._socket.is_closing()

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self._is_paused = True
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._has_to_wait:
            return
        self._socket.resume_reading()
        if self._session.incoming.pending:
            # Not now: the protocol may be handling data.
            asyncio.get_running_loop().call_soon(self._received)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()
