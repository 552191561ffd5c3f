"""Files that only their owner may read, which appear complete or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def open_private(path: str, flags: int) -> int:
    """For `open(…, opener=open_private)`."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write, with mode 0600. It is durable, and gets its name, when the block ends without an error.

    Raises FileExistsError: an existing file is never replaced.
    """
    if path.exists():
        raise FileExistsError(17, "File exists", str(path))
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as directory:
        unfinished = Path(directory) / path.name
        with open(unfinished, "xb", opener=open_private) as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        os.link(unfinished, path)
        sync_directory(path.parent)
