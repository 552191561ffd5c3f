"""Sessions that were ended before their time, in a file that all API servers of a machine share.

Each server appends what it ends, and reads what others have appended before it decides: one `stat` as long as nothing
has changed. The file survives restarts. It is written anew, without what has expired, when it has become long.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from alcove.api.ids import TenantId

ENDED_SESSIONS_MAX = 1_024
"""Ended sessions of a tenant that are remembered; with one more, all of the tenant's sessions end."""
FILE_BYTES_MAX = 1 << 20
"""Length at which the file is written anew, or twice its length when it was written last, if that is more."""
_ALL = "*"


class EndedSessions:
    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._rewritten_bytes = 0
        """How long the file was when it was written anew, as far as is known."""
        self._forget()

    def _forget(self) -> None:
        self._read: tuple[int, int] = (0, 0)
        """The file, and how much of it was read."""
        self._ended: dict[TenantId, dict[str, float]] = {}
        """The times at which they would have expired, by session id."""
        self._before: dict[TenantId, float] = {}
        """Sessions of the tenant that were started before this time have ended."""

    def has(self, tenant: TenantId, session: str, started: float) -> bool:
        self._catch_up()
        return session in self._ended.get(tenant, ()) or started <= self._before.get(tenant, 0.0)

    def add(self, tenant: TenantId, session: str, expires: float) -> None:
        """Raises OSError."""
        with self._locked():
            self._catch_up()
            now, ended = self._clock(), self._ended.get(tenant, {})
            if sum(time > now for time in ended.values()) >= ENDED_SESSIONS_MAX:
                self._append(f"{_ALL} {tenant} {now!r}\n")
            self._append(f"{session} {tenant} {expires!r}\n")
            self._catch_up()
            if self._read[1] > max(FILE_BYTES_MAX, 2 * self._rewritten_bytes):
                self._write_anew()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _append(self, line: str) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def _catch_up(self) -> None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return
        if (found.st_ino, found.st_size) == self._read:
            return
        if found.st_ino != self._read[0] or found.st_size < self._read[1]:
            self._rewritten_bytes = found.st_size if self._read[0] else 0
            self._forget()
        with self._path.open("rb") as file:
            inode = os.fstat(file.fileno()).st_ino
            file.seek(self._read[1])
            text, _, _ = file.read().rpartition(b"\n")
        for line in text.splitlines():
            self._apply(line.decode())
        self._read = (inode, self._read[1] + len(text) + (1 if text else 0))

    def _apply(self, line: str) -> None:
        session, name, seconds = line.split(" ")
        tenant, time = TenantId(name), float(seconds)
        if session == _ALL:
            self._before[tenant] = time
            self._ended.pop(tenant, None)
        elif time > self._clock():
            self._ended.setdefault(tenant, {})[session] = time

    def _write_anew(self) -> None:
        """All that has not expired. The lock is held."""
        now = self._clock()
        lines = [f"{_ALL} {tenant} {time!r}\n" for tenant, time in self._before.items()]
        for tenant, ended in self._ended.items():
            lines += [f"{session} {tenant} {time!r}\n" for session, time in ended.items() if time > now]
        fresh = self._path.with_suffix(".new")
        fresh.write_text("".join(lines))
        fresh.replace(self._path)
        self._catch_up()
