"""Reads files from directories whose contents a tenant controls: a pod's files, or those of an image.

The file is opened beneath the directory without following any link, must be a regular file, and is read up to
a limit: a symbolic link, a pipe, a device or a sparse file of many gigabytes costs the agent nothing.
"""

import os
import stat
from pathlib import Path

from alcove.agent import mount_calls


def read_head(directory: Path, name: str, bytes_max: int) -> bytes | None:
    """The first `bytes_max` bytes of the file `name`, a relative path in the directory; None if it is no
    regular file. The directory's own path must be trusted."""
    descriptor = _open(directory, name)
    if descriptor is None:
        return None
    try:
        return os.read(descriptor, bytes_max)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _open(directory: Path, name: str) -> int | None:
    try:
        top = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        descriptor = mount_calls.open_without_links(top, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    finally:
        os.close(top)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None
