"""Log rotation: a container's log has at most `files_max` files of about `file_bytes_max` bytes.

A full file is renamed and conmon is asked to reopen the log; no output is lost meanwhile. Full files are not
compressed, so that `kubectl logs --tail` can find the last lines without reading whole files.

conmon replaces the file by a new one itself after every `conmon.LOG_FILE_BYTES_MAX` bytes that a container
has written, so that a log cannot grow without limit between two sweeps. A hard link retains the replaced
file: output is lost only if a container writes more than that between two sweeps.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from alcove.agent.logs import files
from alcove.agent.runtime.base import ContainerId, ContainerRuntime, RuntimeFailure
from alcove.agent.server.running_containers import RunningContainers

log = logging.getLogger(__name__)

FILE_BYTES_MAX = 10 << 20
FILES_MAX = 5
SWEEP_SECONDS = 5.0
REOPEN_SECONDS_MAX = 2.0
_POLL_SECONDS = 0.02


class LogRotation:
    def __init__(
        self, file_bytes_max: int = FILE_BYTES_MAX, files_max: int = FILES_MAX,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:  # fmt: skip
        """`files_max` includes the file that is being written."""
        self._file_bytes_max = file_bytes_max
        self._files_max = max(2, files_max)
        self._clock = clock

    async def run(self, pods: RunningContainers) -> None:
        while True:
            await self.sweep(pods)
            await asyncio.sleep(SWEEP_SECONDS)

    async def sweep(self, pods: RunningContainers) -> None:
        """Rotates every log that is full. A failure is logged; the next sweep retries."""
        for pod in list(pods.all()):
            for container in list(pod.containers.values()):
                try:
                    await self.rotate(pod.runtime, container.id, container.log_path)
                except (OSError, RuntimeFailure) as error:
                    log.warning(
                        "failed to rotate log; retrying",
                        extra={"path": str(container.log_path), "error": str(error)},
                    )

    async def rotate(self, runtime: ContainerRuntime, container: ContainerId, path: Path) -> bool:
        """Rotates the log if it is full; returns whether it did."""
        retained = _retained(path)
        if _is_replaced(path, retained):
            self._make_room(path)
            _rename(retained, self._rotated_name(path))
        if _size(path) < self._file_bytes_max:
            _retain(path, retained)
            return False
        self._make_room(path)
        retained.unlink(missing_ok=True)
        full = _rename(path, self._rotated_name(path))
        await runtime.reopen_log(container)
        if await _appears(path):
            return True
        # conmon did not reopen the log: the container has exited.
        _rename(full, path.name)
        return False

    def _make_room(self, path: Path) -> None:
        for old in files.rotated(path)[: -(self._files_max - 2) or None]:
            old.unlink(missing_ok=True)

    def _rotated_name(self, path: Path) -> str:
        return f"{path.name}.{self._clock():%Y%m%d-%H%M%S.%f}"


def _retained(path: Path) -> Path:
    """The hard link to the log's current file; `files` does not list it."""
    return path.with_name(f".{path.name}")


def _retain(path: Path, retained: Path) -> None:
    try:
        os.link(path, retained)
    except (FileExistsError, FileNotFoundError):
        pass  # It is retained already, or the container has written nothing yet.


def _is_replaced(path: Path, retained: Path) -> bool:
    """Whether conmon replaced the file that was retained."""
    try:
        return retained.stat().st_ino != path.stat().st_ino
    except FileNotFoundError:
        return False


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


async def _appears(path: Path) -> bool:
    for _ in range(int(REOPEN_SECONDS_MAX / _POLL_SECONDS)):
        if _exists(path):
            return True
        await asyncio.sleep(_POLL_SECONDS)
    return _exists(path)


def _exists(path: Path) -> bool:
    return path.exists()


def _rename(path: Path, name: str) -> Path:
    return path.rename(path.with_name(name))


def remove(path: Path) -> None:
    """Removes the log with all its rotated files. Idempotent."""
    for each in (*files.all_of(path), _retained(path)):
        each.unlink(missing_ok=True)
