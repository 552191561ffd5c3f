"""How connections end: the transport of those that are over, and hanging up on a peer so that it notices.

What was written still goes out, for a while. But a peer that takes nothing (a process that does not read its input)
has a full window, and the end of the connection would wait behind it; so after that while the connection is reset.
"""

import asyncio
import fcntl
import os
import socket
import struct
import termios

FLUSH_SECONDS_MAX = 10.0
LOOK_SECONDS = 0.05
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class _Closed(asyncio.Transport):
    """Takes everything, sends nothing."""

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
    """Ends the connection so that the peer knows that there should be more."""
    found = transport.get_extra_info("socket")
    if found is not None:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()


def hang_up(transport: asyncio.Transport) -> None:
    """Closes, and resets if the peer does not take what was written in time. Idempotent."""
    if transport.is_closing():
        return
    found = transport.get_extra_info("socket")
    if not transport.get_write_buffer_size() and not _unsent_bytes(found.fileno()):
        transport.close()
        return
    # As long as it is held, the connection can still be reset, whatever the transport has done by then.
    held = socket.socket(fileno=os.dup(found.fileno()))
    transport.close()
    loop = asyncio.get_running_loop()
    _settle(loop, transport, held, loop.time() + FLUSH_SECONDS_MAX)


def _settle(
    loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, held: socket.socket, deadline: float
) -> None:
    """Lets go when everything was taken; resets what was not in time."""
    if not transport.get_write_buffer_size() and not _unsent_bytes(held.fileno()):
        held.close()
    elif loop.time() < deadline:
        loop.call_later(LOOK_SECONDS, _settle, loop, transport, held, deadline)
    else:
        transport.abort()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        held.close()


def _unsent_bytes(descriptor: int) -> int:
    """In the kernel, not acknowledged by the peer."""
    return int.from_bytes(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)), "little")
