"""The terminal of a process, for whoever wants to see it and set its size.

crun makes a terminal of its own for the process; given one to copy to, it forgets to pass changes of size on. So it
is told to hand over its own, through a socket. The others hand none over to a caller that waits, but do
copy well: they get a terminal that is made here, and that is theirs (only then are they told of sizes).
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from alcove.component.tasks import stop

_NAME = "console"
_MESSAGE_BYTES_MAX = 4_096

OnTerminal = Callable[[int], None]
"""Called with a terminal's upper end, which is then the callee's."""


class ConsoleOptions(Struct, frozen=True):
    """How the runtime is to be called."""

    options: Sequence[str] = ()
    prefix: Sequence[str] = ()
    descriptor: int | None = None
    """The lower end of a terminal that is to be all its streams; None: what the caller says."""


@asynccontextmanager
async def opened(
    folder: Path, on_terminal: OnTerminal | None, is_handed: bool
) -> AsyncIterator[ConsoleOptions]:
    """`is_handed`: by the runtime. Without `on_terminal`, nobody wants one."""
    if on_terminal is None:
        yield ConsoleOptions()
    elif is_handed:
        async with _handed_over(folder, on_terminal) as terminal:
            yield terminal
    else:
        upper, lower = os.openpty()
        on_terminal(upper)
        try:
            yield ConsoleOptions(prefix=("setsid", "--ctty"), descriptor=lower)
        finally:
            os.close(lower)


@asynccontextmanager
async def _handed_over(folder: Path, on_terminal: OnTerminal) -> AsyncIterator[ConsoleOptions]:
    # By its descriptor: the whole path may be too long for a socket.
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        listener.bind(f"/proc/self/fd/{place}/{_NAME}")
        listener.listen(1)
        taking = asyncio.create_task(_take(listener, on_terminal), name="console socket")
        try:
            yield ConsoleOptions(("--console-socket", f"/proc/{os.getpid()}/fd/{place}/{_NAME}"))
        finally:
            await stop(taking)
    finally:
        listener.close()
        os.close(place)


async def _take(listener: socket.socket, on_terminal: OnTerminal) -> None:
    loop = asyncio.get_running_loop()
    sender, _ = await loop.sock_accept(listener)
    with sender:
        await _readable(loop, sender)
        _, descriptors, _, _ = socket.recv_fds(sender, _MESSAGE_BYTES_MAX, 1)
    if descriptors:
        on_terminal(descriptors[0])


async def _readable(loop: asyncio.AbstractEventLoop, sender: socket.socket) -> None:
    ready = asyncio.Event()
    loop.add_reader(sender, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sender)
