"""Connections as bytes, before a protocol takes them over: a TCP connection of this process, or a tunnel that another
connection carries. A TLS handshake is performed over either."""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol, cast


class ByteStream(Protocol):
    async def send(self, data: bytes) -> None:
        """Raises OSError."""
        ...

    async def receive(self, bytes_max: int) -> bytes:
        """The next bytes; empty when the peer has closed. Raises OSError."""
        ...

    async def hand_over(self, protocol: asyncio.BufferedProtocol) -> None:
        """Connect the protocol to the transport, beginning with bytes that were not received yet. The stream is not
        used any more."""
        ...

    def abort(self) -> None:
        """Close the connection at once."""
        ...


class SocketStream:
    """A connected, non-blocking socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._sock, data)

    async def receive(self, bytes_max: int) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self._sock, bytes_max)

    async def hand_over(self, protocol: asyncio.BufferedProtocol) -> None:
        await asyncio.get_running_loop().create_connection(lambda: protocol, sock=self._sock)

    def abort(self) -> None:
        self._sock.close()


class TransportStream(asyncio.Protocol):
    """The bytes of a transport, of which at most one read is buffered."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._received = b""
        self._lost: OSError | None = None
        self._is_ended = False
        self._changed = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()

    async def send(self, data: bytes) -> None:
        self._check()
        self._transport.write(data)
        await self._may_write.wait()
        self._check()

    async def receive(self, bytes_max: int) -> bytes:
        while not self._received and not self._is_ended:
            self._changed.clear()
            self._transport.resume_reading()
            await self._changed.wait()
        if not self._received:
            self._check()
        data, self._received = self._received[:bytes_max], self._received[bytes_max:]
        return data

    async def hand_over(self, protocol: asyncio.BufferedProtocol) -> None:
        if self._is_ended:
            raise self._lost or ConnectionResetError("the server closed the connection")
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        received, self._received = self._received, b""
        while received:
            buffer = memoryview(protocol.get_buffer(len(received)))
            part, received = received[: len(buffer)], received[len(buffer) :]
            buffer[: len(part)] = part
            protocol.buffer_updated(len(part))
        self._transport.resume_reading()

    def abort(self) -> None:
        self._transport.abort()

    def _check(self) -> None:
        if self._lost is not None:
            raise self._lost

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._transport.pause_reading()
        self._changed.set()

    def eof_received(self) -> None:
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(ConnectionResetError(f"the connection was lost: {exc}") if exc is not None else None)

    def _end(self, error: OSError | None) -> None:
        self._lost, self._is_ended = self._lost or error, True
        self._changed.set()
        self._may_write.set()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()
