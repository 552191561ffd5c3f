"""Whose name means which image: one file, changed by one process at a time, read by any.

An operator's command may change it beside a running agent: whoever reads gets what was written last.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from alcove.api.ids import TenantId

Names = dict[TenantId, dict[str, str]]
"""By tenant: a name and the digest that it means."""


class Catalogue:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "names.json"
        self._lock = folder / "names.lock"
        self._seen: tuple[int, int] = (0, 0)
        self._names: Names = {}

    def read(self) -> Mapping[TenantId, Mapping[str, str]]:
        try:
            with self._path.open("rb") as file:
                state = os.fstat(file.fileno())
                # Each writing makes a new file: the same file has the same content.
                if (state.st_ino, state.st_mtime_ns) != self._seen:
                    self._names = msgspec.json.decode(file.read(), type=Names)
                    self._seen = (state.st_ino, state.st_mtime_ns)
        except FileNotFoundError:
            self._names, self._seen = {}, (0, 0)
        return self._names

    @contextmanager
    def changing(self) -> Iterator[Names]:
        """What is left in the names at the end of the block is what they are from then on."""
        with self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self.read()
            names = {tenant: dict(own) for tenant, own in before.items()}
            yield names
            kept = {tenant: own for tenant, own in names.items() if own}
            if kept != before:
                self._write(kept)

    def _write(self, names: Names) -> None:
        draft = self._path.with_suffix(".new")
        with draft.open("wb") as file:
            file.write(msgspec.json.encode(names))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(self._path)
