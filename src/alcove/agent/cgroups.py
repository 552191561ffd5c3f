"""Cgroups of pods, on v1, v2, and v1 with an empty v2 hierarchy beside it.

The agent creates and removes the cgroups of pods, and reads the usage of any cgroup; the cgroups of
containers inside them are created by the runtimes. Cgroups are named by their path from the root of the
hierarchy.
"""

import asyncio
import errno
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path

from msgspec import Struct

CPU_PERIOD_US = 100_000
ALL_PODS_CPU_SHARES = 512
"""The CPU weight of all pods of the machine together. What runs outside of them, in any one cgroup, has 1,024: the node's
agent, and on one machine the API server, do not wait for cores behind pods, which take whatever they leave."""
_POD_CONTROLLERS = ("cpu", "memory", "pids")
_KILL_ROUNDS_MAX = 100
REMOVE_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.02
_MAKE_TRIES_MAX = 10
_UNLIMITED_BYTES = 1 << 60


class CgroupLayout(Enum):
    V1 = "v1"
    HYBRID = "hybrid"
    """Controllers in v1; a v2 hierarchy without the controllers used here."""
    V2 = "v2"


class CgroupLimits(Struct, frozen=True):
    """0 means no limit."""

    cpu_milli: int = 0
    cpu_shares: int = 0
    memory_bytes: int = 0
    processes: int = 0


class CgroupUsage(Struct, frozen=True):
    cpu_nanoseconds: int = 0
    memory_bytes: int = 0
    working_set_bytes: int = 0
    """Memory usage without inactive file cache."""
    processes: int = 0


class CgroupMount(Struct, frozen=True):
    path: Path
    controllers: frozenset[str]
    """Empty for v2."""


def find(mounts: str) -> tuple[CgroupLayout, tuple[CgroupMount, ...]]:
    """The layout and mounts of cgroups, from the text of /proc/self/mounts."""
    v1: list[CgroupMount] = []
    unified: list[CgroupMount] = []
    for line in mounts.splitlines():
        _, path, kind, options, *_ = line.split()
        if kind == "cgroup":
            v1.append(CgroupMount(Path(path), frozenset(options.split(","))))
        elif kind == "cgroup2":
            unified.append(CgroupMount(Path(path), frozenset()))
    has_v1 = any("memory" in mount.controllers for mount in v1)
    if has_v1:
        return (CgroupLayout.HYBRID if unified else CgroupLayout.V1), (*v1, *unified)
    return CgroupLayout.V2, (*unified, *v1)


class Cgroups:
    def __init__(self, mounts: str) -> None:
        self.layout, self.mounts = find(mounts)

    @classmethod
    def of_machine(cls) -> "Cgroups":
        return cls(Path("/proc/self/mounts").read_text())

    @property
    def unified(self) -> Path | None:
        """Where v2 is mounted; None if it is not."""
        return next((mount.path for mount in self.mounts if not mount.controllers), None)

    def ensure(self, group: str, limits: CgroupLimits) -> None:
        """Sets the limits of the cgroup, which is created if missing."""
        if self.layout is CgroupLayout.V2:
            self._ensure_v2(group, limits)
        else:
            self._ensure_v1(group, limits)

    def yield_cpu(self, group: str) -> None:
        """Gives all pods of the machine, in the outermost of the cgroups that `group` is in, less weight than
        processes outside of them have. It exists already."""
        outermost = f"/{group.lstrip('/').partition('/')[0]}"
        if self.layout is CgroupLayout.V2:
            # Here 100 is the weight of others.
            _write(self._path("", outermost) / "cpu.weight", ALL_PODS_CPU_SHARES * 100 // 1_024)
        else:
            _write(self._path("cpu", outermost) / "cpu.shares", ALL_PODS_CPU_SHARES)

    def lowers_cpu(self, group: str, limits: CgroupLimits) -> bool:
        """Whether the limits allow the cgroup less CPU time than it has now."""
        file = "cpu.max" if self.layout is CgroupLayout.V2 else "cpu.cfs_quota_us"
        controller = "" if self.layout is CgroupLayout.V2 else "cpu"
        current, *_ = _text(self._path(controller, group) / file).split() or ("",)
        quota = _quota_us(limits)
        return bool(quota) and not (current.isdigit() and int(current) <= quota)

    def make_leaf(self, group: str) -> list[Path]:
        """Creates a cgroup for processes, without limits of its own, inside an existing one, and returns the
        files by which processes enter it. Raises FileNotFoundError if the outer one does not exist."""
        paths = self._charging_paths(group)
        for path in paths:
            path.mkdir(exist_ok=True)
        return [path / "cgroup.procs" for path in paths]

    def _charging_paths(self, group: str) -> list[Path]:
        """The cgroup in all hierarchies by which pods are charged."""
        is_unified = self.layout is CgroupLayout.V2
        charging = {*_POD_CONTROLLERS, "cpuacct"}
        return [
            mount.path / group.lstrip("/")
            for mount in self.mounts
            if (not mount.controllers if is_unified else mount.controllers & charging)
        ]

    def usage(self, group: str) -> CgroupUsage:
        """The current usage of the cgroup and those below it; zeros if it does not exist."""
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

    def inode(self, group: str) -> int:
        """The number of the cgroup's directory where its CPU time is counted; 0 if it does not exist."""
        controller = "" if self.layout is CgroupLayout.V2 else "cpuacct"
        try:
            return self._path(controller, group).stat().st_ino
        except OSError:
            return 0

    def memory_limit(self, group: str) -> int:
        """In bytes; 0 for none."""
        if self.layout is CgroupLayout.V2:
            limit = _number(self._path("", group) / "memory.max")
        else:
            limit = _number(self._path("memory", group) / "memory.limit_in_bytes")
        return limit if limit < _UNLIMITED_BYTES else 0

    def oom_kills(self, group: str) -> int:
        """How many processes of the cgroup were killed because of its memory limit."""
        if self.layout is CgroupLayout.V2:
            return _field(self._path("", group) / "memory.events", "oom_kill")
        return _field(self._path("memory", group) / "memory.oom_control", "oom_kill")

    def processes(self, group: str) -> list[int]:
        """Pids of the processes in the cgroup and below it."""
        pids: set[int] = set()
        for mount in self.mounts:
            for path in _tree(mount.path / group.lstrip("/")):
                pids.update(map(int, _text(path / "cgroup.procs").split()))
        return sorted(pids)

    def kill(self, group: str) -> None:
        """Kills every process in the cgroup and below it, including those that fork meanwhile."""
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
        """Removes the cgroup and those below it, in all hierarchies; False if a process is left in it.
        Idempotent."""
        removed = True
        for mount in self.mounts:
            for path in _tree(mount.path / group.lstrip("/")):
                try:
                    path.rmdir()
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
                        raise
                    removed = False
        return removed

    async def remove_killed(self, group: str) -> bool:
        """Kills every process in the cgroup and removes it. On a machine that others keep busy, killed processes may
        take long to end; False if they have not after REMOVE_SECONDS_MAX. Idempotent."""
        self.kill(group)
        for _ in range(int(REMOVE_SECONDS_MAX / _POLL_SECONDS)):
            if self.remove(group):
                return True
            await asyncio.sleep(_POLL_SECONDS)
        return False

    def remove_if_empty(self, group: str) -> None:
        """Removes the cgroup from the hierarchies where nothing is in it, and nothing below it: another cluster may be
        creating its own there."""
        for mount in self.mounts:
            with suppress(OSError):
                (mount.path / group.lstrip("/")).rmdir()

    def children(self, group: str) -> list[str]:
        """Names of the cgroups directly below."""
        names: set[str] = set()
        for mount in self.mounts:
            names.update(entry.name for entry in _directories(mount.path / group.lstrip("/")))
        return sorted(names)

    def balance(self, group: str) -> None:
        """Gives the cgroup the CPU weight of those directly below it together. The smallest weight, of those that
        request nothing, does not count: their number gives no right to more. Without any below it, the cgroup is
        removed."""
        children = self.children(group)
        if not children:
            self.remove(group)
            return
        is_v2 = self.layout is CgroupLayout.V2
        file, least, most = ("cpu.weight", 1, 10_000) if is_v2 else ("cpu.shares", 2, 262_144)
        path = self._path("" if is_v2 else "cpu", group)
        weights = (_number(path / child / file) for child in children)
        _write(path / file, min(max(sum(each for each in weights if each > least), least), most))

    def _path(self, controller: str, group: str) -> Path:
        for mount in self.mounts:
            if controller in mount.controllers or (not controller and not mount.controllers):
                return mount.path / group.lstrip("/")
        return Path("/nonexistent")

    def _ensure_v1(self, group: str, limits: CgroupLimits) -> None:
        paths = {controller: self._path(controller, group) for controller in _POD_CONTROLLERS}
        # cpuacct may be a hierarchy of its own, where runtimes would create it with the first container only.
        for path in {*paths.values(), *self._charging_paths(group)}:
            _make(path)
        _limit_memory_v1(paths["memory"], limits.memory_bytes)
        _write(paths["cpu"] / "cpu.shares", limits.cpu_shares or 1_024)
        _write(paths["cpu"] / "cpu.cfs_period_us", CPU_PERIOD_US)
        _write(paths["cpu"] / "cpu.cfs_quota_us", _quota_us(limits) or -1)
        _write(paths["pids"] / "pids.max", limits.processes or "max")

    def _ensure_v2(self, group: str, limits: CgroupLimits) -> None:
        path = self._path("", group)
        root = self._path("", "/")
        _make(path)
        for parent in reversed(path.parents):
            if parent == root or root in parent.parents:
                _write(parent / "cgroup.subtree_control", " ".join(f"+{each}" for each in _POD_CONTROLLERS))
        _write(path / "memory.max", limits.memory_bytes or "max")
        _write(path / "cpu.weight", weight_of(limits.cpu_shares or 1_024))
        _write(path / "cpu.max", f"{_quota_us(limits) or 'max'} {CPU_PERIOD_US}")
        _write(path / "pids.max", limits.processes or "max")


def _make(path: Path) -> None:
    """Creates the directory and those above it. Another cluster of this machine may remove one above it meanwhile,
    as long as it is empty: then it is created again."""
    for _ in range(_MAKE_TRIES_MAX - 1):
        with suppress(FileNotFoundError):
            path.mkdir(parents=True, exist_ok=True)
            return
    path.mkdir(parents=True, exist_ok=True)


def _limit_memory_v1(path: Path, limit: int) -> None:
    """Sets the memory limit, and that of memory with swap if it is set: it may never be below the memory
    limit, so the order of the writes depends on the direction of the change."""
    both = path / "memory.memsw.limit_in_bytes"
    bound = _number(both)
    is_bound = 0 < bound < _UNLIMITED_BYTES
    if is_bound and (not limit or limit > bound):
        _write(both, limit or -1)
    _write(path / "memory.limit_in_bytes", limit or -1)
    if is_bound and 0 < limit < bound:
        _write(both, limit)


def weight_of(shares: int) -> int:
    """The v2 weight (1 to 10,000) for v1 shares (2 to 262,144)."""
    return 1 + (min(max(shares, 2), 262_144) - 2) * 9_999 // 262_142


def _quota_us(limits: CgroupLimits) -> int:
    """0 for no limit. The kernel accepts no quota below a millisecond."""
    return max(1_000, limits.cpu_milli * CPU_PERIOD_US // 1_000) if limits.cpu_milli else 0


def _tree(path: Path) -> Iterator[Path]:
    """The directories at and below `path`, leaves first."""
    if path.is_dir():
        for entry in _directories(path):
            yield from _tree(entry)
        yield path


def _directories(path: Path) -> list[Path]:
    """The directories directly below `path`; none if it does not exist, or was removed meanwhile."""
    try:
        return [entry for entry in sorted(path.iterdir()) if entry.is_dir()]
    except FileNotFoundError:
        return []


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
