"""The files of the audit log: one series per tenant, so that nobody's requests push out another's trail.

`TENANT.log` is the newest file of a tenant, `TENANT.log.1` the one before, and so on. Each tenant has a share of the
disk; when the total is reached, the tenant with most loses its oldest file.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from msgspec import Struct

from alcove.api.ids import SYSTEM, TenantId

logger = logging.getLogger(__name__)

FILES_MAX = 8
"""Files of one tenant, including the one being written."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_OTHERS = "_others"
"""The file of tenants whose names are no file names. There are none, as names of tenants are validated."""


class AuditLimits(Struct, frozen=True, kw_only=True):
    tenant_bytes_max: int = 64 << 20
    """On disk, per tenant; beyond it the tenant's oldest file is deleted."""
    total_bytes_max: int = 1 << 30
    """On disk, of all tenants; ring0 may have half of it. Beyond it the tenant with most loses its oldest file."""
    buffer_bytes_max: int = 32 << 20
    """In memory, until it is written; a tenant may have a quarter of it. Beyond it the tenant's events are dropped
    and counted."""


Lines = Mapping[TenantId, bytearray]


class AuditFiles:
    """The thread that writes and rotates the files in a directory."""

    def __init__(self, directory: Path, limits: AuditLimits) -> None:
        self.lines: SimpleQueue[Lines | None] = SimpleQueue()
        self.written: dict[TenantId, int] = {}
        """Bytes of each tenant that are written or lost."""
        self.failed_bytes = 0
        self._directory = directory
        self._limits = limits
        self._sizes: dict[str, int] | None = None
        """Bytes of all files by the name of their series; None before they are counted."""
        self._thread = Thread(target=self._run, name="audit-writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.lines.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (batch := self.lines.get()) is not None:
            for tenant, lines in batch.items():
                try:
                    self._write(tenant, lines)
                except OSError as error:
                    self.failed_bytes += len(lines)
                    logger.exception(
                        "failed to write audit log; events lost",
                        extra={"path": str(self._directory), "error": str(error)},
                    )
                self.written[tenant] = self.written.get(tenant, 0) + len(lines)

    def _write(self, tenant: TenantId, lines: bytearray) -> None:
        if self._sizes is None:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            with self._alone():
                self._sizes = self._measured()
        name = tenant if _NAME.fullmatch(tenant) else _OTHERS
        # Opened for each write, so that a file that was moved or deleted is created again.
        path = self._directory / f"{name}.log"
        descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            remaining = memoryview(lines)
            while remaining:
                remaining = remaining[os.write(descriptor, remaining) :]
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        self._sizes[name] = self._sizes.get(name, 0) + len(lines)
        if size >= self._share(name) // FILES_MAX:
            with self._alone():
                # Another worker of this server may have rotated it meanwhile.
                if path.exists() and path.stat().st_size >= self._share(name) // FILES_MAX:
                    self._rotate(path)
                self._sizes = self._measured()
                self._shrink(self._sizes)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keeps other workers of this server from renaming files."""
        directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
        finally:
            os.close(directory)

    def _share(self, name: str) -> int:
        return self._limits.total_bytes_max // 2 if name == SYSTEM else self._limits.tenant_bytes_max

    def _rotate(self, path: Path) -> None:
        """Renames `T.log` to `T.log.1`, that to `.2`, and so on; the oldest is overwritten."""
        names = [path, *(Path(f"{path}.{number}") for number in range(1, FILES_MAX))]
        for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
            if newer.exists():
                newer.replace(older)

    def _shrink(self, sizes: dict[str, int]) -> None:
        """Deletes the oldest files of those with most, until the total is kept."""
        while sum(sizes.values()) > self._limits.total_bytes_max:
            most = max(sizes, key=lambda name: (sizes[name], name != SYSTEM))
            oldest = max(self._files(most), key=_number)
            sizes[most] -= oldest.stat().st_size
            oldest.unlink()

    def _measured(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for path in self._directory.iterdir():
            name, separator, _ = path.name.partition(".log")
            if separator:
                sizes[name] = sizes.get(name, 0) + path.stat().st_size
        return sizes

    def _files(self, name: str) -> list[Path]:
        return [path for path in self._directory.iterdir() if path.name.partition(".log")[0] == name]


def _number(path: Path) -> int:
    suffix = path.suffix.removeprefix(".")
    return int(suffix) if suffix.isdecimal() else 0
