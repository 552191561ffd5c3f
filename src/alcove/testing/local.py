"""An `alcove` process for tests: started, awaited until it reports readiness, stopped or killed."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Self

from alcove.testing import forkserver

STOP_SECONDS_MAX = 90.0


def whole_lines(path: Path) -> list[str]:
    """The lines of a file that another process writes, without the one it may be in the middle of."""
    return path.read_text().rpartition("\n")[0].splitlines()


class LocalProcess:
    """`with LocalProcess("scheduler", log, …): …`"""

    _namespace: Path | None = None
    """The network namespace that it runs in; None for that of the test."""
    ready = "leading"
    """Prefix of its first output line, which reports readiness."""

    def __init__(self, verb: str, log: Path, *arguments: str) -> None:
        self._verb = verb
        self._log = log
        self._arguments = arguments
        self._process: forkserver.StartedProcess | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative if it was killed by a signal."""
        assert self._process is not None
        return self._process.poll()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self.exit_code is None

    @property
    def log(self) -> str:
        return self._log.read_text()

    def start(self) -> None:
        """Starts the process without waiting; `wait` waits until it is ready."""
        self._process = forkserver.start([self._verb, *self._arguments], self._log, self._namespace)

    def wait(self) -> str:
        """Waits for readiness; returns its first line. Raises RuntimeError with its log if it did not become
        ready."""
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(self.ready):
            self.stop()
            raise RuntimeError(f"the {self._verb} did not start: {self.log}")
        return line

    def send(self, sent: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(sent)
        if sent == signal.SIGSTOP:  # Its threads stop one after the other.
            while not all(_is_stopped(each) for each in Path(f"/proc/{self._process.pid}/task").iterdir()):
                time.sleep(0.001)

    def stop(self, sent: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(sent)
            self._process.send_signal(signal.SIGCONT)  # A test may have paused it.
            self._process.wait(STOP_SECONDS_MAX)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def kill(self) -> None:
        """Kills it with SIGKILL: its leases stay until they expire."""
        self.stop(signal.SIGKILL)

    def __enter__(self) -> Self:
        self.start()
        self.wait()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()


def _is_stopped(task: Path) -> bool:
    return (task / "stat").read_text().rpartition(")")[2].split()[0] == "T"
