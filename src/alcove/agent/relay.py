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
        self.is_ended = False
        """Whether its peer sends nothing more."""
        self.closed: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=BUFFER_BYTES)
        # Keepalive: a peer that vanished must not occupy a connection forever.
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, seconds in _KEEPALIVE:
            sock.setsockopt(socket.IPPROTO_TCP, option, seconds)
        if self.other is not None and self.other.is_ended:
            self.transport.write_eof()

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        """Half-closes the other side; responses still pass. When both have ended, both are closed: a transport that
        is kept open does not notice by itself that there is nothing left to do."""
        self.is_ended = True
        if self.other is None:
            return True
        other = self.other.transport
        if self.other.is_ended:
            if other is not None:
                other.close()
            return False
        if other is not None and other.can_write_eof():
            other.write_eof()
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
