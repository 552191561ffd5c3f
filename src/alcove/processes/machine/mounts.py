"""Mounts of this machine: list them, and unmount those below a directory."""

from __future__ import annotations

import ctypes
import errno
import os
import re
from pathlib import Path

MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


def mounted() -> list[str]:
    """All mount points, in mount order."""
    with Path("/proc/self/mounts").open("rb") as lines:
        return [os.fsdecode(unescaped(line.split()[1])) for line in lines]


def unescaped(field: bytes) -> bytes:
    """Decodes the kernel's octal escapes of blanks and backslashes in paths."""
    return re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), field)


def unmount_below(*directories: Path) -> None:
    """Unmounts everything at and below the directories, last mounted first: mounts may be stacked."""
    prefixes = tuple(f"{directory}/" for directory in directories)
    for path in reversed(mounted()):
        if f"{path}/".startswith(prefixes):
            unmount(path)


def unmount(path: str) -> None:
    """Detaches the mount; processes that use it keep it until they exit. Idempotent."""
    if _libc.umount2(os.fsencode(path), MNT_DETACH):
        number = ctypes.get_errno()
        if number not in (errno.EINVAL, errno.ENOENT):
            raise OSError(number, f"cannot unmount: {os.strerror(number)}", path)
