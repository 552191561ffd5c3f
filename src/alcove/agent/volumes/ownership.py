"""fsGroup: makes everything in a volume readable and writable by the pod's group.

Another pod may write to the volume at the same time and create symbolic links: every file is opened without
following links, and changed by its descriptor.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from alcove.agent.volumes.errors import VolumeFailure

_FILE_MODE, _DIRECTORY_MODE = 0o660, stat.S_ISGID | 0o770
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class _Level(Struct):
    """A directory between the top and the current one. Its descriptor is closed, so the depth is not
    limited."""

    identity: tuple[int, int]
    names: list[str]
    """Entries that are still to be visited."""


def is_owned(directory: Path, group: int) -> bool:
    """Whether the top directory has the ownership that `set_group_ownership` sets; the contents are not
    checked."""
    state = directory.stat()
    return state.st_gid == group and state.st_mode & _DIRECTORY_MODE == _DIRECTORY_MODE


def set_group_ownership(directory: Path, group: int) -> None:
    """Changes the top directory last, so that `is_owned` is false after an interrupted walk. Raises
    VolumeFailure."""
    top = os.open(directory, _OPEN_DIRECTORY)
    try:
        for parent, name in _walk(top):
            _set_group(parent, name, group)
        _set_open_group(top, group)
    finally:
        os.close(top)


def _walk(top: int) -> Iterator[tuple[int, str]]:
    """(descriptor of the parent directory, name) of every entry; directories come after their contents."""
    current = os.dup(top)
    levels = [_Level(_identity(current), _names(current))]
    path: list[str] = []
    try:
        while levels:
            if not levels[-1].names:
                levels.pop()
                if levels:
                    parent = _open_parent(current, levels[-1].identity)
                    os.close(current)
                    current = parent
                    yield current, path.pop()
                continue
            name = levels[-1].names.pop()
            child = _open_directory(current, name)
            if child is None:
                yield current, name
                continue
            os.close(current)
            current = child
            levels.append(_Level(_identity(current), _names(current)))
            path.append(name)
    finally:
        os.close(current)


def _names(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries]


def _open_directory(parent: int, name: str) -> int | None:
    """None if the entry is not a directory, or is on another file system."""
    try:
        descriptor = os.open(name, _OPEN_DIRECTORY, dir_fd=parent)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP, errno.ENOENT):
            raise
        return None
    if os.fstat(descriptor).st_dev != os.fstat(parent).st_dev:
        os.close(descriptor)
        return None
    return descriptor


def _open_parent(current: int, expected: tuple[int, int]) -> int:
    parent = os.open("..", _OPEN_DIRECTORY, dir_fd=current)
    if _identity(parent) != expected:
        os.close(parent)
        raise VolumeFailure("a directory was moved while fsGroup was applied to the volume")
    return parent


def _identity(descriptor: int) -> tuple[int, int]:
    state = os.fstat(descriptor)
    return state.st_dev, state.st_ino


def _set_group(parent: int, name: str, group: int) -> None:
    try:
        descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=parent)
    except FileNotFoundError:
        return
    try:
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            os.chown(name, -1, group, dir_fd=parent, follow_symlinks=False)
        else:
            _set_open_group(descriptor, group)
    except FileNotFoundError:
        return
    finally:
        os.close(descriptor)


def _set_open_group(descriptor: int, group: int) -> None:
    state = os.fstat(descriptor)
    mode = _DIRECTORY_MODE if stat.S_ISDIR(state.st_mode) else _FILE_MODE
    descriptor_path = (
        f"/proc/self/fd/{descriptor}"  # The open file, even if its name now refers to another one.
    )
    if state.st_gid != group:
        os.chown(descriptor_path, -1, group)
    if state.st_mode & mode != mode:
        Path(descriptor_path).chmod(stat.S_IMODE(state.st_mode) | mode)
