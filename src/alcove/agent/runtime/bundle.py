"""A container's directory: everything that is known of it, for whoever comes after us.

record.json   id, sandbox, labels, log, when it was made; written first
config.json   what is run
pid           the first process, written by the runtime; the stand-in's for gVisor
process       the same with its start time, so that a pid used again is not mistaken for it
conmon.pid    who watches it, writes its log, and says how it ended
started       when it was started
<id>          its exit code, written by conmon when it ends
lost          becomes that where nobody tells it; written in advance, since it is also wanted where the disk is full
oom           it was ended because its memory was full
attach, ctl   conmon's doors: streams, and the log to be opened anew
"""

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
    NoSuchContainer,
    SpecRefused,
)
from alcove.agent.runtime.flavors import FAILED, STARTED
from alcove.api.objects import Object

UNKNOWN_EXIT_CODE = 255
_is_id = re.compile(r"[a-z0-9][a-z0-9.-]{0,200}").fullmatch

_LOST = "lost"
_KIND, _SANDBOX = "io.kubernetes.cri.container-type", "io.kubernetes.cri.sandbox-id"
"""How gVisor is told which containers share a sandbox."""


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
    """A process, told from a later one of the same id by its start time."""

    id: int
    start: int


def process_of(pid: int) -> ProcessIdentity | None:
    """The process of that id as it is now; None: there is none, or only what is left of one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in ("Z", "X") else ProcessIdentity(pid, int(fields[19]))


class Bundle:
    """A container's directory below the runtime's own folder. This is the only place where an id becomes a path."""

    def __init__(self, folder: Path, id: ContainerId) -> None:
        """Raises SpecRefused if `id` is not an id: it might lead out of the folder."""
        if not _is_id(id):
            raise SpecRefused(f"{id[:200]!r} is not a container id")
        self.path = folder / id
        self.id = id

    @property
    def runtime_id(self) -> str:
        """Its name for the runtime. `runsc` takes a prefix for the whole, so none may be another's prefix."""
        return _runtime_id(self.id)

    @classmethod
    def make(cls, folder: Path, spec: ContainerSpec) -> "Bundle":
        bundle = cls(folder, spec.id)
        try:
            bundle.path.mkdir(mode=0o700)
        except FileExistsError:
            raise ContainerExists(spec.id) from None
        cgroup = spec.config["linux"]["cgroupsPath"]
        record = ContainerRecord(
            spec.id, spec.sandbox, dict(spec.labels), str(spec.log_path), cgroup, time.time()
        )
        bundle._write("record.json", msgspec.json.encode(record))
        told = {_KIND: "sandbox" if spec.is_sandbox else "container", _SANDBOX: _runtime_id(spec.sandbox)}
        bundle._write(_LOST, str(UNKNOWN_EXIT_CODE).encode())
        bundle._write("config.json", msgspec.json.encode({**spec.config, "annotations": told}))
        return bundle

    def record(self) -> ContainerRecord:
        """Raises NoSuchContainer if it is gone, unreadable, or was being made when its maker was stopped."""
        try:
            return msgspec.json.decode((self.path / "record.json").read_bytes(), type=ContainerRecord)
        except (FileNotFoundError, msgspec.DecodeError):
            raise NoSuchContainer(self.id) from None

    def config(self) -> Object:
        return msgspec.json.decode((self.path / "config.json").read_bytes())  # type: ignore[no-any-return]

    def process(self) -> ProcessIdentity | None:
        """Its first process, alive or not; None: it was never made."""
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
        """The process that watches over it, if it is there."""
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
        """It could not be started."""
        return (self.path / FAILED).exists()

    def set_started(self) -> None:
        (self.path / STARTED).touch(exist_ok=True)

    @property
    def finished_at(self) -> float:
        return _modified(self.path / self.runtime_id)

    def exit_code(self) -> int | None:
        """None: it has not ended, as far as anybody told."""
        return self._number(self.runtime_id)

    def set_lost(self) -> None:
        """It ended, and whoever would have told how is gone as well. Takes no room on the disk."""
        lost = self.path / _LOST
        if not lost.exists():  # An earlier version made the container.
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
        """At once or not at all."""
        draft = self.path / f".{name}.new"
        draft.write_bytes(content)
        draft.rename(self.path / name)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return 0.0
