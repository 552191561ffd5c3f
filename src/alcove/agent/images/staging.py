"""Directories of images that are being unpacked or removed: each becomes an image by a rename, or is deleted.

A directory is locked while a process uses it, so that the cleanup after a crash skips the directories that
another process is using.
"""

import fcntl
import os
import uuid
from pathlib import Path

from alcove.agent import file_trees

_PREFIX = "incoming-"


class StagingDirectory:
    def __init__(self, directory: Path) -> None:
        self.path = directory / f"{_PREFIX}{uuid.uuid4().hex}"
        self._lock = -1

    def __enter__(self) -> Path:
        self.path.mkdir(mode=0o700)
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        return self.path

    def __exit__(self, *_: object) -> None:
        file_trees.remove(self.path)
        os.close(self._lock)


def discard(directory: Path, doomed: Path) -> Path:
    """Renames the image directory `doomed`, so that it is no image any more, and returns the new path. The
    caller or the next `clean` deletes it."""
    path = directory / f"{_PREFIX}{uuid.uuid4().hex}"
    doomed.rename(path)
    return path


def clean(directory: Path) -> None:
    """Deletes all staging directories that are not in use."""
    for path in directory.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file_trees.remove(path)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)
