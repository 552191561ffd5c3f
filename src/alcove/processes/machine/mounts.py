"""Mounts of this machine: which there are, and taking away those below a folder."""

from __future__ import annotations

import ctypes
import errno
import os
import re
from pathlib import Path

MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


def mounted() -> list[str]:
    """Where something is mounted, in the order it was."""
    with Path("/proc/self/mounts").open("rb") as lines:
        return [os.fsdecode(unescaped(line.split()[1])) for line in lines]


def unescaped(field: bytes) -> bytes:
    """The kernel writes blanks and backslashes in paths as three octal digits."""
    return re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), field)


def unmount_below(*folders: Path) -> None:
    """Everything at and below the folders, the last mounted first: one may lie on another."""
    below = tuple(f"{folder}/" for folder in folders)
    for path in reversed(mounted()):
        if f"{path}/".startswith(below):
            unmount(path)


def unmount(path: str) -> None:
    """Idempotent. What still uses it keeps it until it ends."""
    if _libc.umount2(os.fsencode(path), MNT_DETACH):
        number = ctypes.get_errno()
        if number not in (errno.EINVAL, errno.ENOENT):
            raise OSError(number, f"cannot unmount: {os.strerror(number)}", path)
