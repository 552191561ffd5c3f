"""A container's directory: all its state, so that a restarted agent finds it.

record.json   id, sandbox, labels, log, cgroup and creation time; written first
config.json   the OCI runtime configuration
pid           pid of the first process, written by the runtime; of the proxy process for gVisor
process       the same with its start time, so that a reused pid is not mistaken for it
conmon.pid    pid of conmon, which monitors the container
started       its modification time is the container's start time
<id>          the exit code, written by conmon
lost          renamed to <id> if conmon was killed; written in advance, since the disk may be full then
oom-killed    exists if the container was killed because of its memory limit
attach, ctl   conmon's sockets and pipes: streams, and reopening of the log
"""

import asyncio
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from alcove.agent.runtime.base import (
    ContainerExists,
    ContainerId,
    ContainerSpec,
    CreateFailed,
    NoSuchContainer,
    SpecRefused,
)
from alcove.agent.runtime.flavors import FAILED, START_LOG, STARTED
from alcove.api.objects import Object

UNKNOWN_EXIT_CODE = 255
_is_id = re.compile(r"[a-z0-9][a-z0-9.-]{0,200}").fullmatch

_LOST = "lost"
_KIND, _SANDBOX = "io.kubernetes.cri.container-type", "io.kubernetes.cri.sandbox-id"
"""Annotations by which gVisor knows which containers share a sandbox."""


def _runtime_id(id: ContainerId) -> str:
    return f"{id}_"


class ContainerRecord(Struct, frozen=True):
    id: ContainerId
    sandbox: ContainerId
    labels: Mapping[str, str]
    log_path: str
    cgroup: str
    created_at: float


class ProcessIdentity(Struct, frozen=True):
    """A process; its start time distinguishes it from a later one with the same pid."""

    id: int
    start: int


def process_of(pid: int) -> ProcessIdentity | None:
    """The current process with that pid; None if there is none, or only a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in ("Z", "X") else ProcessIdentity(pid, int(fields[19]))


async def process_exited(pid: int) -> None:
    """Returns when the process has exited, immediately if there is none. It need not be a child."""
    if process_of(pid) is None:
        await asyncio.sleep(0)
        return
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    exited = asyncio.Event()
    loop.add_reader(descriptor, exited.set)
    try:
        await exited.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


class Bundle:
    """A container's directory below the runtime's directory. This is the only code that turns an id into a
    path."""

    def __init__(self, parent: Path, id: ContainerId) -> None:
        """Raises SpecRefused if `id` is not a valid id: it could lead out of the directory."""
        if not _is_id(id):
            raise SpecRefused(f"{id[:200]!r} is not a container id")
        self.path = parent / id
        self.id = id

    @property
    def runtime_id(self) -> str:
        """The container's id for the runtime. `runsc` accepts unique prefixes of ids, so none may be a prefix
        of another."""
        return _runtime_id(self.id)

    @classmethod
    def make(cls, parent: Path, spec: ContainerSpec) -> "Bundle":
        bundle = cls(parent, spec.id)
        try:
            bundle.path.mkdir(mode=0o700)
        except FileExistsError:
            raise ContainerExists(spec.id) from None
        cgroup = spec.config["linux"]["cgroupsPath"]
        record = ContainerRecord(
            spec.id, spec.sandbox, dict(spec.labels), str(spec.log_path), cgroup, time.time()
        )
        bundle._write("record.json", msgspec.json.encode(record))
        annotations = {
            **spec.config.get("annotations", {}),
            _KIND: "sandbox" if spec.is_sandbox else "container",
            _SANDBOX: _runtime_id(spec.sandbox),
        }
        bundle._write(_LOST, str(UNKNOWN_EXIT_CODE).encode())
        bundle._write("config.json", msgspec.json.encode({**spec.config, "annotations": annotations}))
        return bundle

    def record(self) -> ContainerRecord:
        """Raises NoSuchContainer if the record is missing or unreadable, as when the agent was stopped before
        it was written."""
        try:
            return msgspec.json.decode((self.path / "record.json").read_bytes(), type=ContainerRecord)
        except (FileNotFoundError, msgspec.DecodeError):
            raise NoSuchContainer(self.id) from None

    def config(self) -> Object:
        return msgspec.json.decode((self.path / "config.json").read_bytes())  # type: ignore[no-any-return]

    def process(self) -> ProcessIdentity | None:
        """The container's first process, running or not; None if it was never created."""
        try:
            return msgspec.json.decode((self.path / "process").read_bytes(), type=ProcessIdentity)
        except FileNotFoundError:
            pid = self._number("pid")
        if pid is None:
            return None
        process = process_of(pid) or ProcessIdentity(pid, 0)
        self._write("process", msgspec.json.encode(process))
        return process

    def is_alive(self) -> bool:
        process = self.process()
        return process is not None and process_of(process.id) == process

    def monitor(self) -> int | None:
        """The pid of the container's conmon; None if it is not running."""
        pid = self._number("conmon.pid")
        if pid is None:
            return None
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return pid if os.fsencode(self.path) in line else None

    @property
    def started_at(self) -> float:
        return _modified(self.path / STARTED)

    @property
    def failed(self) -> bool:
        """Whether starting it failed."""
        return (self.path / FAILED).exists()

    def is_started(self) -> bool:
        """Whether it was started, also if it has exited since. Raises CreateFailed if starting it failed."""
        # Read first: a short container may start and exit before the next line.
        is_over = self.failed or not self.is_alive()
        if self.started_at:
            return True
        if is_over:
            raise CreateFailed(_last_message(self.path / START_LOG))
        return False

    def set_started(self) -> None:
        (self.path / STARTED).touch(exist_ok=True)

    @property
    def finished_at(self) -> float:
        return _modified(self.path / self.runtime_id)

    def exit_code(self) -> int | None:
        """None if the container has not exited, or conmon has not recorded it yet."""
        return self._number(self.runtime_id)

    @property
    def is_lost(self) -> bool:
        """Whether the container exited with an unknown code."""
        return self.exit_code() is not None and not (self.path / _LOST).exists()

    def set_lost(self) -> None:
        """Records that the container exited with an unknown code, because conmon was killed. Needs no disk
        space."""
        lost = self.path / _LOST
        if not lost.exists():  # The container was created by an earlier version.
            self._write(_LOST, str(UNKNOWN_EXIT_CODE).encode())
        os.utime(lost)
        lost.rename(self.path / self.runtime_id)

    @property
    def oom_killed(self) -> bool:
        return (self.path / "oom-killed").exists()

    def set_oom_killed(self) -> None:
        (self.path / "oom-killed").touch(exist_ok=True)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _number(self, name: str) -> int | None:
        try:
            text = (self.path / name).read_text().strip()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return int(text) if text.isdigit() else None

    def _write(self, name: str, content: bytes) -> None:
        """Writes the file atomically."""
        draft = self.path / f".{name}.new"
        draft.write_bytes(content)
        draft.rename(self.path / name)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return 0.0


def _last_message(log: Path) -> str:
    """The message of the last line of a runtime's JSON log."""
    lines = log.read_text().strip().splitlines() if log.exists() else []
    try:
        return str(msgspec.json.decode(lines[-1]).get("msg") or "start failed") if lines else "start failed"
    except msgspec.DecodeError:
        return lines[-1]
