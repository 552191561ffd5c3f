"""Key files on disk: each file is complete or absent, and readable only by its owner.

A file is written to a temporary file, synced, and then linked: a crash never leaves half a key, and if two
processes start together, both read the file of the one that linked first.
"""

import os
import secrets
from collections.abc import Callable
from pathlib import Path


class KeyFileError(Exception):
    """A file of the key directory cannot be used; the message names it and says what to do."""


def read_or_create(path: Path, make: Callable[[], bytes]) -> bytes:
    """The file's content; a missing file is created with the result of `make`, unless another process creates
    it."""
    existing = read(path)
    if existing is not None:
        return existing
    created = make()
    if _create(path, created):
        return created
    return read_or_create(path, lambda: created)


def read(path: Path) -> bytes | None:
    """The file's content; None if the file does not exist. Raises KeyFileError."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KeyFileError(f"cannot read {path}: {error.strerror}; check its owner and mode") from error


def replace(path: Path, data: bytes) -> None:
    """Replaces the file's content atomically. Raises KeyFileError."""
    _publish(path, data, os.replace)


def _create(path: Path, data: bytes) -> bool:
    """Creates the file; returns False if it exists already."""
    try:
        _publish(path, data, os.link)
    except FileExistsError:
        return False
    return True


def _publish(path: Path, data: bytes, step: Callable[[Path, Path], None]) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_synced(temporary, data)
        step(temporary, path)
        _sync_directory(path.parent)
    except FileExistsError:
        raise
    except OSError as error:
        raise KeyFileError(f"cannot write {path}: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _write_synced(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
