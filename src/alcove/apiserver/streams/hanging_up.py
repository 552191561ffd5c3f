"""Hanging up on an agent so that it notices.

What was written still goes out, for a while. But an agent that takes nothing (a process that does not read its input)
has a full window, behind which the end of the connection would wait too; so after that while the connection is reset.
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


def hang_up(transport: asyncio.Transport) -> None:
    """Idempotent."""
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
    """Lets go when everything was taken; cuts what was not in time."""
    if not transport.get_write_buffer_size() and not _unsent_bytes(held.fileno()):
        held.close()
    elif loop.time() < deadline:
        loop.call_later(LOOK_SECONDS, _settle, loop, transport, held, deadline)
    else:
        _cut(transport, held)


def _unsent_bytes(descriptor: int) -> int:
    """In the kernel, not taken by the other side."""
    told = fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(told, "little")


def _cut(transport: asyncio.Transport, held: socket.socket) -> None:
    transport.abort()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    held.close()
