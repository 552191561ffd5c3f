"""The scheduler in a process of its own, for tests, beside a `LocalServer`."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

START_SECONDS_MAX = 30.0


class LocalScheduler:
    """`with LocalScheduler(kubeconfig, directory): …`; several at once compete for the lease."""

    def __init__(self, kubeconfig: Path, directory: Path, *options: str) -> None:
        self._kubeconfig = kubeconfig
        self._log = directory / "scheduler.log"
        self._options = options
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text()

    def start(self) -> None:
        """Returns at once; `wait` until it leads."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        arguments = ["--kubeconfig", str(self._kubeconfig), *self._options]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "alcove.processes.main", "scheduler", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def wait(self) -> None:
        """Until it leads and decides."""
        assert self._process is not None and self._process.stdout is not None
        if self._process.stdout.readline() != "leading\n":
            raise RuntimeError(f"the scheduler did not start: {self.log}")

    def send(self, sent: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(sent)

    def stop(self, sent: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(sent)
            self._process.wait(START_SECONDS_MAX)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def kill(self) -> None:
        """At once, wherever it is: its lease stays until it runs out."""
        self.stop(signal.SIGKILL)

    def __enter__(self) -> LocalScheduler:
        self.start()
        self.wait()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()
