"""The pod's group (fsGroup) owns what is in a volume: everything in it becomes the group's to read and write.

Another pod may be writing to the volume at the same time, and may put links wherever it likes: everything is
opened without following any, and changed by its descriptor.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from alcove.agent.volumes.errors import VolumeFailure

_FILE_MODE, _FOLDER_MODE = 0o660, stat.S_ISGID | 0o770
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class _Level(Struct):
    """A folder on the way to where the walk is; its descriptor is closed, so that any depth is possible."""

    identity: tuple[int, int]
    names: list[str]
    """Still to be visited."""


def is_owned(folder: Path, group: int) -> bool:
    """Whether the top looks like what `set_group_ownership` leaves: what is below is then taken for granted on demand."""
    state = folder.stat()
    return state.st_gid == group and state.st_mode & _FOLDER_MODE == _FOLDER_MODE


def set_group_ownership(folder: Path, group: int) -> None:
    """Everything below first, the top last: a walk that was stopped is seen and done again."""
    top = os.open(folder, _OPEN_FOLDER)
    try:
        for parent, name in _below(top):
            _give(parent, name, group)
        _give_open(top, group)
    finally:
        os.close(top)


def _below(top: int) -> Iterator[tuple[int, str]]:
    """(descriptor of the folder, name) of everything, folders after what is in them."""
    here = os.dup(top)
    levels = [_Level(_identity(here), _names(here))]
    way: list[str] = []
    try:
        while levels:
            if not levels[-1].names:
                levels.pop()
                if levels:
                    parent = _up(here, levels[-1].identity)
                    os.close(here)
                    here = parent
                    yield here, way.pop()
                continue
            name = levels[-1].names.pop()
            below = _open_folder(here, name)
            if below is None:
                yield here, name
                continue
            os.close(here)
            here = below
            levels.append(_Level(_identity(here), _names(here)))
            way.append(name)
    finally:
        os.close(here)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _open_folder(parent: int, name: str) -> int | None:
    """None: it is none, or of another file system."""
    try:
        found = os.open(name, _OPEN_FOLDER, dir_fd=parent)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP, errno.ENOENT):
            raise
        return None
    if os.fstat(found).st_dev != os.fstat(parent).st_dev:
        os.close(found)
        return None
    return found


def _up(here: int, expected: tuple[int, int]) -> int:
    parent = os.open("..", _OPEN_FOLDER, dir_fd=here)
    if _identity(parent) != expected:
        os.close(parent)
        raise VolumeFailure("a folder was moved while the volume was given to the pod's group")
    return parent


def _identity(descriptor: int) -> tuple[int, int]:
    state = os.fstat(descriptor)
    return state.st_dev, state.st_ino


def _give(parent: int, name: str, group: int) -> None:
    try:
        descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=parent)
    except FileNotFoundError:
        return
    try:
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            os.chown(name, -1, group, dir_fd=parent, follow_symlinks=False)
        else:
            _give_open(descriptor, group)
    except FileNotFoundError:
        return
    finally:
        os.close(descriptor)


def _give_open(descriptor: int, group: int) -> None:
    state = os.fstat(descriptor)
    wanted = _FOLDER_MODE if stat.S_ISDIR(state.st_mode) else _FILE_MODE
    path = f"/proc/self/fd/{descriptor}"  # What is open, whatever its name means by now.
    if state.st_gid != group:
        os.chown(path, -1, group)
    if state.st_mode & wanted != wanted:
        Path(path).chmod(stat.S_IMODE(state.st_mode) | wanted)
