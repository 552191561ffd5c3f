"""The machine's CPUs, memory, disk and identity, as far as this process may use them."""

import os
import platform
from pathlib import Path

from msgspec import Struct, structs

from alcove.agent.cgroups import CgroupLayout, Cgroups

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}


class Hardware(Struct, frozen=True):
    cpu_milli: int
    memory_bytes: int
    disk_bytes: int
    architecture: str
    kernel: str
    os_image: str
    boot_id: str
    machine_id: str


def read(data: Path, cgroups: Cgroups | None, root: Path = Path("/")) -> Hardware:
    """`data` is on the disk to measure. A memory limit of this process' cgroup applies if it is lower."""
    memory = _total_memory(_text(root / "proc/meminfo"))
    limit = _memory_limit(cgroups, _text(root / "proc/self/cgroup")) if cgroups is not None else 0
    disk = os.statvfs(data)
    return Hardware(
        cpu_milli=len(os.sched_getaffinity(0)) * 1_000,
        memory_bytes=min(memory, limit) if limit else memory,
        disk_bytes=disk.f_blocks * disk.f_frsize,
        architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
        kernel=platform.release(),
        os_image=_pretty_name(_text(root / "etc/os-release")),
        boot_id=_text(root / "proc/sys/kernel/random/boot_id").strip(),
        machine_id=_text(root / "etc/machine-id").strip(),
    )


def has_apparmor(root: Path = Path("/")) -> bool:
    """Whether the kernel enforces AppArmor profiles."""
    return _text(root / "sys/module/apparmor/parameters/enabled").startswith("Y")


def part_of(machine: Hardware, nodes: int) -> Hardware:
    """The share of one of several nodes on a machine."""
    return structs.replace(
        machine,
        cpu_milli=machine.cpu_milli // nodes,
        memory_bytes=machine.memory_bytes // nodes,
        disk_bytes=machine.disk_bytes // nodes,
    )


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _total_memory(meminfo: str) -> int:
    for line in meminfo.splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return int(rest.split()[0]) * 1_024
    return 0


def available_memory(meminfo: str) -> int:
    for line in meminfo.splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1_024
    return 0


def _pretty_name(release: str) -> str:
    for line in release.splitlines():
        name, _, value = line.partition("=")
        if name == "PRETTY_NAME":
            return value.strip().strip('"')
    return ""


def _memory_limit(cgroups: Cgroups, text: str) -> int:
    """The memory limit of this process' cgroup; 0 for none. `text` is /proc/self/cgroup."""
    groups = {tuple(line.split(":")[1].split(",")): line.split(":", 2)[2] for line in text.splitlines()}
    if cgroups.layout is CgroupLayout.V2:
        return cgroups.memory_limit(groups.get(("",), "/"))
    group = next((path for controllers, path in groups.items() if "memory" in controllers), "/")
    return cgroups.memory_limit(group)
