"""Control groups of pods, on version 1, version 2, and version 1 with an empty version 2 beside it.

The agent makes and removes the groups of pods and reads what is used in any group; containers' own groups
inside them are the runtimes' business. Groups are named by their path from the root of the hierarchy.
"""

import errno
import os
import signal
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from msgspec import Struct

CPU_PERIOD_US = 100_000
_POD_CONTROLLERS = ("cpu", "memory", "pids")
_KILL_ROUNDS_MAX = 100
_UNLIMITED_BYTES = 1 << 60


class CgroupLayout(Enum):
    V1 = "v1"
    HYBRID = "hybrid"
    """Controllers in version 1; a version 2 hierarchy without the ones that matter."""
    V2 = "v2"


class CgroupLimits(Struct, frozen=True):
    """Zero: no limit."""

    cpu_milli: int = 0
    cpu_shares: int = 0
    memory_bytes: int = 0
    processes: int = 0


class CgroupUsage(Struct, frozen=True):
    cpu_nanoseconds: int = 0
    memory_bytes: int = 0
    working_set_bytes: int = 0
    """Without what the kernel can take back at once."""
    processes: int = 0


class CgroupMount(Struct, frozen=True):
    path: Path
    controllers: frozenset[str]
    """Empty for version 2."""


def find(mounts: str) -> tuple[CgroupLayout, tuple[CgroupMount, ...]]:
    """How control groups are mounted, from the text of /proc/self/mounts."""
    found: list[CgroupMount] = []
    unified: list[CgroupMount] = []
    for line in mounts.splitlines():
        _, path, kind, options, *_ = line.split()
        if kind == "cgroup":
            found.append(CgroupMount(Path(path), frozenset(options.split(","))))
        elif kind == "cgroup2":
            unified.append(CgroupMount(Path(path), frozenset()))
    has_v1 = any("memory" in mount.controllers for mount in found)
    if has_v1:
        return (CgroupLayout.HYBRID if unified else CgroupLayout.V1), (*found, *unified)
    return CgroupLayout.V2, (*unified, *found)


class Cgroups:
    def __init__(self, mounts: str) -> None:
        self.layout, self.mounts = find(mounts)

    @classmethod
    def of_machine(cls) -> "Cgroups":
        return cls(Path("/proc/self/mounts").read_text())

    @property
    def unified(self) -> Path | None:
        """Where version 2 is mounted, if it is."""
        return next((mount.path for mount in self.mounts if not mount.controllers), None)

    def ensure(self, group: str, limits: CgroupLimits) -> None:
        """The group with these limits, made if it is missing."""
        if self.layout is CgroupLayout.V2:
            self._ensure_v2(group, limits)
        else:
            self._ensure_v1(group, limits)

    def usage(self, group: str) -> CgroupUsage:
        """What is used now in the group and below it; zeros where there is no such group."""
        if self.layout is CgroupLayout.V2:
            path = self._path("", group)
            memory = _number(path / "memory.current")
            inactive = _field(path / "memory.stat", "inactive_file")
            cpu = _field(path / "cpu.stat", "usage_usec") * 1_000
            processes = _number(path / "pids.current")
        else:
            path = self._path("memory", group)
            memory = _number(path / "memory.usage_in_bytes")
            inactive = _field(path / "memory.stat", "total_inactive_file")
            cpu = _number(self._path("cpuacct", group) / "cpuacct.usage")
            processes = _number(self._path("pids", group) / "pids.current")
        return CgroupUsage(cpu, memory, max(0, memory - inactive), processes)

    def memory_limit(self, group: str) -> int:
        """In bytes; 0: there is none, or none that anybody could reach."""
        if self.layout is CgroupLayout.V2:
            limit = _number(self._path("", group) / "memory.max")
        else:
            limit = _number(self._path("memory", group) / "memory.limit_in_bytes")
        return limit if limit < _UNLIMITED_BYTES else 0

    def oom_kills(self, group: str) -> int:
        """How many processes of the group were killed because its memory was full."""
        if self.layout is CgroupLayout.V2:
            return _field(self._path("", group) / "memory.events", "oom_kill")
        return _field(self._path("memory", group) / "memory.oom_control", "oom_kill")

    def processes(self, group: str) -> list[int]:
        """Ids of the processes in the group and below it."""
        found: set[int] = set()
        for mount in self.mounts:
            for path in _tree(mount.path / group.lstrip("/")):
                found.update(map(int, _text(path / "cgroup.procs").split()))
        return sorted(found)

    def kill(self, group: str) -> None:
        """Ends every process in the group and below it, also ones that fork meanwhile."""
        for _ in range(_KILL_ROUNDS_MAX):
            processes = self.processes(group)
            if not processes:
                return
            for process in processes:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    continue

    def remove(self, group: str) -> bool:
        """Removes the group and those below it, everywhere; False: something in it still lives. Idempotent."""
        gone = True
        for mount in self.mounts:
            for path in _tree(mount.path / group.lstrip("/")):
                try:
                    path.rmdir()
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
                        raise
                    gone = False
        return gone

    def children(self, group: str) -> list[str]:
        """Names of the groups directly below."""
        names: set[str] = set()
        for mount in self.mounts:
            path = mount.path / group.lstrip("/")
            if path.is_dir():
                names.update(entry.name for entry in path.iterdir() if entry.is_dir())
        return sorted(names)

    def _path(self, controller: str, group: str) -> Path:
        for mount in self.mounts:
            if controller in mount.controllers or (not controller and not mount.controllers):
                return mount.path / group.lstrip("/")
        return Path("/nonexistent")

    def _ensure_v1(self, group: str, limits: CgroupLimits) -> None:
        paths = {controller: self._path(controller, group) for controller in _POD_CONTROLLERS}
        for path in paths.values():
            path.mkdir(parents=True, exist_ok=True)
        _limit_memory_v1(paths["memory"], limits.memory_bytes)
        _write(paths["cpu"] / "cpu.shares", limits.cpu_shares or 1_024)
        _write(paths["cpu"] / "cpu.cfs_period_us", CPU_PERIOD_US)
        _write(paths["cpu"] / "cpu.cfs_quota_us", _quota_us(limits) or -1)
        _write(paths["pids"] / "pids.max", limits.processes or "max")

    def _ensure_v2(self, group: str, limits: CgroupLimits) -> None:
        path = self._path("", group)
        root = self._path("", "/")
        path.mkdir(parents=True, exist_ok=True)
        for parent in reversed(path.parents):
            if parent == root or root in parent.parents:
                _write(parent / "cgroup.subtree_control", " ".join(f"+{each}" for each in _POD_CONTROLLERS))
        _write(path / "memory.max", limits.memory_bytes or "max")
        _write(path / "cpu.weight", weight_of(limits.cpu_shares or 1_024))
        _write(path / "cpu.max", f"{_quota_us(limits) or 'max'} {CPU_PERIOD_US}")
        _write(path / "pids.max", limits.processes or "max")


def _limit_memory_v1(path: Path, limit: int) -> None:
    """Memory with swap, where that is limited too, may never be less than memory alone: which comes first depends."""
    both = path / "memory.memsw.limit_in_bytes"
    bound = _number(both)
    is_bound = 0 < bound < _UNLIMITED_BYTES
    if is_bound and (not limit or limit > bound):
        _write(both, limit or -1)
    _write(path / "memory.limit_in_bytes", limit or -1)
    if is_bound and 0 < limit < bound:
        _write(both, limit)


def weight_of(shares: int) -> int:
    """Version 2's weight (1 to 10,000) for version 1's shares (2 to 262,144)."""
    return 1 + (min(max(shares, 2), 262_144) - 2) * 9_999 // 262_142


def _quota_us(limits: CgroupLimits) -> int:
    """The kernel takes no quota below a millisecond."""
    return max(1_000, limits.cpu_milli * CPU_PERIOD_US // 1_000) if limits.cpu_milli else 0


def _tree(path: Path) -> Iterator[Path]:
    """The directories at and below `path`, leaves first."""
    if path.is_dir():
        for entry in sorted(path.iterdir()):
            if entry.is_dir():
                yield from _tree(entry)
        yield path


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _number(path: Path) -> int:
    text = _text(path).strip()
    return int(text) if text.isdigit() else 0


def _field(path: Path, name: str) -> int:
    for line in _text(path).splitlines():
        field, _, value = line.partition(" ")
        if field == name and value.strip().isdigit():
            return int(value)
    return 0


def _write(path: Path, value: object) -> None:
    path.write_text(str(value))
