"""An `alcove` process for tests: started, awaited until it reports readiness, stopped or killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

STOP_SECONDS_MAX = 30.0


class LocalProcess:
    """`with LocalProcess("scheduler", log, …): …`"""

    ready = "leading"
    """Prefix of its first output line, which reports readiness."""

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
        """Starts the process without waiting; `wait` waits until it is ready."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "alcove.processes.main", self._verb, *self._arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

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
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def stop(self, sent: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(sent)
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
