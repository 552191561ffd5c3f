"""The TLS layer of a connection whose handshake is complete: the protocol of the socket's transport, and the
transport of the connection above it."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Any, cast

from msgspec import Struct

READ_BYTES_MAX = 16 << 10
"""Bytes that are received and decrypted in one iteration of the event loop: they may be hundreds of messages
of TLS itself."""


class TlsSession(Struct, frozen=True):
    tls: ssl.SSLObject
    incoming: ssl.MemoryBIO
    """Received bytes that `tls` has not read."""
    outgoing: ssl.MemoryBIO
    """Bytes of `tls` that are not sent."""


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    def __init__(self, session: TlsSession, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._session = session
        self._protocol = protocol
        self._socket: asyncio.Transport = cast(asyncio.Transport, None)
        self._buffer = bytearray(READ_BYTES_MAX)

    # Called by the socket's transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self._protocol.connection_made(self)
        self._read()  # The peer may have sent more than the end of its handshake.

    def get_buffer(self, sizehint: int) -> bytearray:
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._session.incoming.write(memoryview(self._buffer)[:nbytes])
        self._read()

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def _read(self) -> None:
        try:
            while not self._socket.is_closing():
                data = self._session.tls.read(READ_BYTES_MAX)
                if not data:
                    self.close()
                    return
                self._protocol.data_received(data)
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError:
            self._socket.abort()

    def _flush(self) -> None:
        if data := self._session.outgoing.read():
            self._socket.write(data)

    # Called by the protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._socket.get_extra_info(name, default)

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
        self._socket.close()

    def abort(self) -> None:
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._socket.is_closing()

    def pause_reading(self) -> None:
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._socket.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()
