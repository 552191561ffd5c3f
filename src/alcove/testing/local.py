"""A process of ours for tests: started, waited for until it says that it is at work, stopped or killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

STOP_SECONDS_MAX = 30.0


class LocalProcess:
    """`with LocalProcess("scheduler", log, …): …`"""

    ready = "leading"
    """What its first line begins with."""

    def __init__(self, verb: str, log: Path, *arguments: str) -> None:
        self._verb = verb
        self._log = log
        self._arguments = arguments
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        return self._log.read_text()

    def start(self) -> None:
        """Returns at once; `wait` until it is at work."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "alcove.processes.main", self._verb, *self._arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def wait(self) -> str:
        """Its first line. Raises RuntimeError with its log if that is not that it is at work."""
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(self.ready):
            self.stop()
            raise RuntimeError(f"the {self._verb} did not start: {self.log}")
        return line

    def send(self, sent: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(sent)

    def stop(self, sent: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(sent)
            self._process.wait(STOP_SECONDS_MAX)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def kill(self) -> None:
        """At once, wherever it is: what it holds stays until it runs out."""
        self.stop(signal.SIGKILL)

    def __enter__(self) -> Self:
        self.start()
        self.wait()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()
