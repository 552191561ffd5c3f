"""Folders of images that are being made or removed: they become whole images by a new name, or are gone.

A folder is locked while somebody works in it, so that whoever cleans up after a crash leaves alone what
another process is making at the moment.
"""

import fcntl
import os
import uuid
from pathlib import Path

from alcove.agent import file_trees

_PREFIX = "incoming-"


class StagingDirectory:
    def __init__(self, folder: Path) -> None:
        self.path = folder / f"{_PREFIX}{uuid.uuid4().hex}"
        self._lock = -1

    def __enter__(self) -> Path:
        self.path.mkdir(mode=0o700)
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        return self.path

    def __exit__(self, *_: object) -> None:
        file_trees.remove(self.path)
        os.close(self._lock)


def discarded(folder: Path, doomed: Path) -> Path:
    """`doomed` under a name by which it is no image any more, to be removed now or by the next who cleans."""
    path = folder / f"{_PREFIX}{uuid.uuid4().hex}"
    doomed.rename(path)
    return path


def clean(folder: Path) -> None:
    """Removes what nobody works in."""
    for path in folder.glob(f"{_PREFIX}*"):
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
