"""The terminal of a process, passed to the caller: the same in every runtime."""

import asyncio
import fcntl
import itertools
import os
import struct
import termios

import pytest

from alcove.agent.runtime.base import ContainerId, ExecSession
from alcove.agent.server.descriptors import DescriptorReader, DescriptorWriter
from alcove.testing.containers import ContainerLab

pytestmark = [pytest.mark.root]
SCRIPT = """
    read line; echo heard $line
    trap 'stty size; exit 3' WINCH; echo ready; while true; do sleep 0.05; done
"""


class Screen:
    """Receives the master end of a terminal."""

    def __init__(self) -> None:
        self.upper = -1
        self.shown = b""
        self._taken = asyncio.Event()

    def take(self, upper: int) -> None:
        self.upper = upper
        self._taken.set()

    async def shows(self, text: bytes) -> None:
        try:
            async with asyncio.timeout(60):
                await self._taken.wait()
                source = DescriptorReader(self.upper)
                while text not in self.shown and (data := await source.read()):
                    self.shown += data
        except TimeoutError:
            pass  # The assertion below shows the output.
        assert text in self.shown


async def sleeping(lab: ContainerLab) -> ContainerId:
    return await lab.container(await lab.sandbox(), {"command": ["sleep", "1000"]})


async def test_a_terminal_is_typed_at_shows_and_is_resized(lab: ContainerLab) -> None:
    container, screen = await sleeping(lab), Screen()
    process = ExecSession(["sh", "-c", f"echo begun; {SCRIPT}"], tty=True, on_terminal=screen.take)
    running = asyncio.create_task(lab.runtime.exec(container, process))
    await screen.shows(b"begun")
    await DescriptorWriter(screen.upper).write(b"hello\r")
    await screen.shows(b"heard hello")
    await screen.shows(b"ready")
    async with asyncio.timeout(60):
        # gVisor passes signals on from a moment after the start; the size itself is seen at once.
        for width in itertools.cycle((88, 89)):
            fcntl.ioctl(screen.upper, termios.TIOCSWINSZ, struct.pack("HHHH", 44, width, 0, 0))
            if (await asyncio.wait([running], timeout=0.5))[0]:
                break
        assert await running == 3
    await screen.shows(b"\n44 8")
    os.close(screen.upper)


async def test_what_cannot_be_started_says_so_on_the_terminal(lab: ContainerLab) -> None:
    container, screen = await sleeping(lab), Screen()
    process = ExecSession(["/no/such/command"], tty=True, on_terminal=screen.take)
    async with asyncio.timeout(60):
        assert await lab.runtime.exec(container, process) != 0
    await screen.shows(b"/no/such/command")
    os.close(screen.upper)


async def test_cancelling_a_terminal_ends_its_process(lab: ContainerLab) -> None:
    container, screen = await sleeping(lab), Screen()
    script = "echo begun; exec sleep 777"
    process = ExecSession(["sh", "-c", script], tty=True, on_terminal=screen.take)
    running = asyncio.create_task(lab.runtime.exec(container, process))
    await screen.shows(b"begun")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    os.close(screen.upper)
    async with asyncio.timeout(60):
        while b"777" in await _processes(lab, container):
            pass


async def _processes(lab: ContainerLab, container: ContainerId) -> bytes:
    reading, writing = os.pipe()
    try:
        assert await lab.runtime.exec(container, ExecSession(["ps"], stdout=writing)) == 0
        return os.read(reading, 65_536)
    finally:
        os.close(writing)
        os.close(reading)
