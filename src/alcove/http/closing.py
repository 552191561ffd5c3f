"""Closes connections so that the peer notices, and provides the transport of closed connections.

Written data is still sent, for at most FLUSH_SECONDS_MAX. A peer that does not read (a process that ignores
its input) has a full receive window, and the FIN would wait behind the data; after that time the connection
is reset.
"""

import asyncio
import fcntl
import os
import socket
import struct
import termios

FLUSH_SECONDS_MAX = 10.0
POLL_SECONDS = 0.05
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_ESTABLISHED = 1
"""A TCP connection that no side has closed; from the kernel's tcp_states.h."""


def is_established(sock: socket.socket | None) -> bool:
    """Whether neither side has closed the TCP connection, as the kernel knows before anything is read."""
    try:
        return sock is not None and sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED
    except OSError:
        return False


class _Closed(asyncio.Transport):
    """The transport of a closed connection: ignores all writes."""

    def is_closing(self) -> bool:
        return True

    def write(self, data: object) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


CLOSED = _Closed()


def reset(transport: asyncio.WriteTransport) -> None:
    """Reset the connection, so that the peer knows that the data is incomplete."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()


def hang_up(transport: asyncio.Transport) -> None:
    """Close the connection, and reset it if the peer does not read the written data in time. Idempotent."""
    if transport.is_closing():
        return
    sock = transport.get_extra_info("socket")
    if sock is None:  # A stream that another connection carries.
        transport.close()
        return
    if not transport.get_write_buffer_size() and not _unsent_bytes(sock.fileno()):
        transport.close()
        return
    # With a duplicate of the socket, the connection can still be reset after the transport has closed its
    # own.
    duplicate = socket.socket(fileno=os.dup(sock.fileno()))
    transport.close()
    loop = asyncio.get_running_loop()
    _await_flush(loop, transport, duplicate, loop.time() + FLUSH_SECONDS_MAX)


def _await_flush(
    loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, duplicate: socket.socket, deadline: float
) -> None:
    """Close the duplicate when all data is acknowledged; reset the connection at the deadline."""
    if not transport.get_write_buffer_size() and not _unsent_bytes(duplicate.fileno()):
        duplicate.close()
    elif loop.time() < deadline:
        loop.call_later(POLL_SECONDS, _await_flush, loop, transport, duplicate, deadline)
    else:
        transport.abort()
        duplicate.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        duplicate.close()


def _unsent_bytes(descriptor: int) -> int:
    """Bytes in the kernel's send queue that the peer has not acknowledged."""
    return int.from_bytes(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)), "little")
