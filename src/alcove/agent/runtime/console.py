"""The terminal of an exec process, for the caller to read, write and resize.

crun creates a terminal for the process; if its streams are a terminal, it does not forward size changes. So
crun passes its terminal through a console socket. runc and runsc do not pass one with a foreground exec, but
forward size changes: they get a terminal created here as their controlling terminal (without that, they get
no SIGWINCH).
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

_NAME = "console"
_MESSAGE_BYTES_MAX = 4_096

OnTerminal = Callable[[int], None]
"""Called with a terminal's master side, which the callee then owns."""


class ConsoleOptions(Struct, frozen=True):
    """Additional options and streams for the runtime's command line."""

    options: Sequence[str] = ()
    prefix: Sequence[str] = ()
    descriptor: int | None = None
    """The slave side of a terminal to use for all streams; None for the caller's streams."""


@asynccontextmanager
async def opened(
    directory: Path, on_terminal: OnTerminal | None, uses_socket: bool
) -> AsyncIterator[ConsoleOptions]:
    """`uses_socket`: the runtime creates the terminal and passes it through a console socket in `directory`.
    Without `on_terminal`, no terminal is created."""
    if on_terminal is None:
        yield ConsoleOptions()
    elif uses_socket:
        async with _console_socket(directory, on_terminal) as options:
            yield options
    else:
        master, slave = os.openpty()
        on_terminal(master)
        try:
            yield ConsoleOptions(prefix=("setsid", "--ctty"), descriptor=slave)
        finally:
            os.close(slave)


@asynccontextmanager
async def _console_socket(directory: Path, on_terminal: OnTerminal) -> AsyncIterator[ConsoleOptions]:
    # Through a descriptor: the whole path may be too long for a socket address.
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    receiver = _TerminalReceiver(listener, on_terminal)
    try:
        listener.bind(f"/proc/self/fd/{descriptor}/{_NAME}")
        listener.listen(1)
        receiver.start()
        yield ConsoleOptions(("--console-socket", f"/proc/{os.getpid()}/fd/{descriptor}/{_NAME}"))
        receiver.finish()
    finally:
        receiver.close()
        os.close(descriptor)


class _TerminalReceiver:
    """Receives one terminal from the first connection to a listening socket."""

    def __init__(self, listener: socket.socket, on_terminal: OnTerminal) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_terminal = on_terminal
        self._listener = listener
        self._sender: socket.socket | None = None

    def start(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def finish(self) -> None:
        """Receives what a runtime that has exited sent just before."""
        if self._sender is None:
            self._accept()
        if self._sender is not None:
            self._receive(self._sender)

    def close(self) -> None:
        for each in (self._listener, self._sender):
            if each is not None:
                self._loop.remove_reader(each)
                each.close()

    def _accept(self) -> None:
        with suppress(BlockingIOError):
            self._sender, _ = self._listener.accept()
            self._sender.setblocking(False)
            self._loop.remove_reader(self._listener)
            self._loop.add_reader(self._sender, self._receive, self._sender)

    def _receive(self, sender: socket.socket) -> None:
        with suppress(BlockingIOError):
            _, descriptors, _, _ = socket.recv_fds(sender, _MESSAGE_BYTES_MAX, 1)
            self._loop.remove_reader(sender)
            if descriptors:
                self._on_terminal(descriptors[0])
