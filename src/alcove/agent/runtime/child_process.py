"""Child processes of the agent: conmon, and commands of the runtime.

They are started by vfork, as `subprocess` does. The event loop's own way forks the agent: it copies the page tables of
a large process each time, and the agent then takes a page fault for each page that it writes to.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from alcove.agent.runtime.bundle import process_exited

DEVNULL = subprocess.DEVNULL
OUTPUT_BYTES_MAX = 1 << 20
"""What is read of the output of a command."""


class ChildProcess:
    """Starting it blocks until the program is executed, which is about a millisecond."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        stdin: int = DEVNULL,
        stdout: int = DEVNULL,
        stderr: int = DEVNULL,
        pass_fds: Sequence[int] = (),
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        start_new_session: bool = False,
    ) -> None:
        self._process = subprocess.Popen(
            arguments, stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=pass_fds, cwd=cwd, env=env,
            start_new_session=start_new_session,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative if it was killed by a signal."""
        return self._process.poll()

    def kill(self) -> None:
        self._process.kill()

    async def wait(self) -> int:
        """Its exit code, when it has exited. If cancelled, it goes on."""
        while self.returncode is None:
            await process_exited(self.pid)
        return self._process.wait()


class CapturedOutput:
    """A file in memory that a child process writes to. It is no pipe: its end does not depend on processes that the child
    may leave behind with the file open."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("output", os.MFD_CLOEXEC)

    def read(self) -> bytes:
        return os.pread(self.descriptor, OUTPUT_BYTES_MAX, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        os.close(self.descriptor)
