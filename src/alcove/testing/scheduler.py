"""The scheduler in a process of its own, for tests, beside a `LocalServer`."""

from __future__ import annotations

from pathlib import Path

from alcove.testing.local import LocalProcess


class LocalScheduler(LocalProcess):
    """`with LocalScheduler(kubeconfig, directory): …`; several at once compete for the lease."""

    def __init__(self, kubeconfig: Path, directory: Path, *options: str) -> None:
        super().__init__("scheduler", directory / "scheduler.log", "--kubeconfig", str(kubeconfig), *options)
