"""The supervisor's lock on a cluster's directory, and the states it recorded, for readers.

Light imports on purpose: `alcove status` needs no event loop.
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
    """State of a component's process."""

    pid: int | None = None
    since: float = 0.0
    """Time of the start, or of the exit."""
    restarts: int = 0
    ended: str = ""
    """How the process last exited."""


class AlreadyRunning(Exception):
    pass


def hold(data: Path) -> IO[str]:
    """Takes the supervisor's lock and writes this pid into it. Raises AlreadyRunning."""
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
    """The last recorded states by component. Empty if there are none."""
    try:
        return msgspec.json.decode((data / "components.json").read_bytes(), type=dict[str, ComponentState])
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return {}


@contextmanager
def at_work(data: Path, seconds_max: float, wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Serializes `up`, `down` and `destroy` of a cluster. `wait` is called once if another command holds the
    lock; raises AlreadyRunning after `seconds_max`."""
    with (data / "up.lock").open("a") as lock:
        deadline = time.monotonic() + seconds_max
        is_reported = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise AlreadyRunning from error
            if not is_reported:
                wait()
                is_reported = True
            time.sleep(0.05)
        yield
