"""A program on a pseudo-terminal: tests type input, and resize its window.

async with Terminal("kubectl", "exec", "-it", "web", "--", "sh") as terminal:
    await terminal.sees("#")
    terminal.type("exit 7\\r")
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Mapping

SEES_SECONDS_MAX = 90.0
ASK_SECONDS = 0.5


class PtyProcess:
    def __init__(self, *command: str, env: Mapping[str, str] | None = None) -> None:
        self._command = command
        self._env = {**os.environ, **(env or {})}
        self.seen = b""
        """All output so far."""

    async def __aenter__(self) -> PtyProcess:
        self._upper, lower = os.openpty()
        self.resize(77, 33)
        os.set_blocking(self._upper, False)
        self.process = await asyncio.create_subprocess_exec(
            *("setsid", "--ctty", *self._command), stdin=lower, stdout=lower, stderr=lower, env=self._env
        )
        os.close(lower)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        os.close(self._upper)

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self._upper, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def type(self, text: str) -> None:
        os.write(self._upper, text.encode())

    async def sees(self, text: str, *, asking: str = "") -> None:
        """Waits for the text in the output. Raises AssertionError on timeout. `asking` is typed repeatedly
        until then: a new window size takes time to arrive."""
        loop = asyncio.get_running_loop()
        deadline, asks_at = loop.time() + SEES_SECONDS_MAX, loop.time()
        while text.encode() not in self.seen:
            if asking and loop.time() >= asks_at:
                self.type(asking)
                asks_at = loop.time() + ASK_SECONDS
            try:
                self.seen += os.read(self._upper, 65_536)
            except BlockingIOError:
                await asyncio.sleep(0.02)
            except OSError as error:
                raise AssertionError(f"it has ended, and showed {self.seen!r}") from error
            if loop.time() > deadline:
                raise AssertionError(f"{text!r} is not in {self.seen!r}")
