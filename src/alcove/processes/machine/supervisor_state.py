"""Who holds a cluster's folder, and what its supervisor knows of the processes: for those who only look.

Light on purpose: `alcove status` loads it, and no event loop.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct


class ComponentState(Struct, frozen=True):
    """What `alcove status` tells of a component."""

    pid: int | None = None
    since: float = 0.0
    """When it was started, or ended."""
    restarts: int = 0
    ended: str = ""
    """How it ended last."""


class AlreadyRunning(Exception):
    pass


def hold(data: Path) -> IO[str]:
    """The lock of this data directory, with our pid in it. Raises AlreadyRunning."""
    lock = (data / "supervisor.lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        raise AlreadyRunning from error
    lock.seek(0)
    lock.truncate()
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def holder(data: Path) -> int | None:
    """The pid of the supervisor that holds the directory; None if none does."""
    try:
        lock = (data / "supervisor.lock").open("r")
    except (FileNotFoundError, NotADirectoryError):
        return None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(lock.read() or 0) or None
    return None


def states(data: Path) -> dict[str, ComponentState]:
    """What the supervisor last knew."""
    try:
        return msgspec.json.decode((data / "components.json").read_bytes(), type=dict[str, ComponentState])
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return {}


@contextmanager
def at_work(data: Path, seconds_max: float, wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """One `up`, `down` or `destroy` at a time for each cluster. `wait` is called once if another is at work;
    raises AlreadyRunning if it is after that time."""
    with (data / "up.lock").open("a") as lock:
        deadline = time.monotonic() + seconds_max
        is_told = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise AlreadyRunning from error
            if not is_told:
                wait()
                is_told = True
            time.sleep(0.05)
        yield
