"""The mapping of tenants' image names to digests: one file, written by one process at a time, read by any.

An operator's command may change it while the agent is running: every read returns the last written state.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from alcove.api.ids import TenantId

Names = dict[TenantId, dict[str, str]]
"""By tenant: image names and the digests they refer to."""


class Catalogue:
    def __init__(self, directory: Path) -> None:
        self._path = directory / "names.json"
        self._lock = directory / "names.lock"
        self._read_state: tuple[int, int] = (0, 0)
        self._names: Names = {}

    def read(self) -> Mapping[TenantId, Mapping[str, str]]:
        try:
            with self._path.open("rb") as file:
                state = os.fstat(file.fileno())
                # Every write creates a new file, so an unchanged inode and time mean unchanged content.
                if (state.st_ino, state.st_mtime_ns) != self._read_state:
                    self._names = msgspec.json.decode(file.read(), type=Names)
                    self._read_state = (state.st_ino, state.st_mtime_ns)
        except FileNotFoundError:
            self._names, self._read_state = {}, (0, 0)
        return self._names

    @contextmanager
    def edit(self) -> Iterator[Names]:
        """Yields a copy of all names; what the block has made of it is written when the block ends."""
        with self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self.read()
            names = {tenant: dict(digests) for tenant, digests in before.items()}
            yield names
            after = {tenant: digests for tenant, digests in names.items() if digests}
            if after != before:
                self._write(after)

    def _write(self, names: Names) -> None:
        draft = self._path.with_suffix(".new")
        with draft.open("wb") as file:
            file.write(msgspec.json.encode(names))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(self._path)
