"""Relays bytes between two connections, with flow control and half-closing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import cast

BUFFER_BYTES = 256 << 10
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))


class RelaySide(asyncio.Protocol):
    """One side of a relayed connection: writes what it reads to the other side, with flow control."""

    def __init__(self) -> None:
        self.other: RelaySide | None = None
        self.transport: asyncio.Transport | None = None
        self.closed: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=BUFFER_BYTES)
        # Keepalive: a peer that vanished must not occupy a connection forever.
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, seconds in _KEEPALIVE:
            sock.setsockopt(socket.IPPROTO_TCP, option, seconds)

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        """Half-closes the other side; responses still pass."""
        if (
            self.other is not None
            and self.other.transport is not None
            and self.other.transport.can_write_eof()
        ):
            self.other.transport.write_eof()
        return True

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self.transport = None
        self.closed()
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()
