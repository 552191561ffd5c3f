"""The terminal that a runtime passes through a console socket."""

import os
import socket
from pathlib import Path

from alcove.agent.runtime import console


def pass_terminal(options: console.ConsoleOptions) -> None:
    """Connects, sends a terminal and exits, as a runtime does."""
    master, slave = os.openpty()
    with socket.socket(socket.AF_UNIX) as runtime:
        runtime.connect(options.options[1])
        socket.send_fds(runtime, [b"terminal"], [master])
    os.write(slave, b"/no/such/command\n")
    os.close(master)
    os.close(slave)


async def test_a_terminal_that_is_passed_just_before_the_runtime_exits_is_received(tmp_path: Path) -> None:
    terminals: list[int] = []
    async with console.opened(tmp_path, terminals.append, uses_socket=True) as options:
        pass_terminal(options)
    (terminal,) = terminals
    assert os.read(terminal, 100).startswith(b"/no/such/command")
    os.close(terminal)


async def test_a_runtime_that_exits_without_a_terminal_is_not_waited_for(tmp_path: Path) -> None:
    terminals: list[int] = []
    async with console.opened(tmp_path, terminals.append, uses_socket=True) as options:
        with socket.socket(socket.AF_UNIX) as runtime:
            runtime.connect(options.options[1])
    assert not terminals
