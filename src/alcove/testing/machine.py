"""What a machine has that clusters add to: taken before and after, the difference is what was left behind."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from msgspec import Struct

from alcove.agent.cgroups import Cgroups
from alcove.processes.machine.mounts import mounted


class Snapshot(Struct, frozen=True):
    namespaces: frozenset[str]
    links: frozenset[str]
    mounts: frozenset[str]
    cgroups: frozenset[str]
    processes: frozenset[str]
    tables: frozenset[str]
    forwarding: str
    run: frozenset[str]

    @classmethod
    def take(cls, mark: str = "alcove") -> Snapshot:
        """`mark`: only processes whose command line has it, and mounts whose path has."""
        return cls(
            namespaces=_names(Path("/run/netns")),
            links=_names(Path("/sys/class/net")),
            mounts=frozenset(path for path in mounted() if mark in path),
            cgroups=_groups(),
            processes=_processes(mark),
            tables=_tables(),
            forwarding=Path("/proc/sys/net/ipv4/ip_forward").read_text().strip(),
            run=_names(Path("/run/alcove")),
        )

    def difference(self, before: Snapshot) -> list[str]:
        """What is there now and was not, and what was there and is not, in words."""
        found = []
        for field in self.__struct_fields__:
            now, then = getattr(self, field), getattr(before, field)
            if isinstance(now, frozenset):
                found += [f"{field}: + {each}" for each in sorted(now - then)]
                found += [f"{field}: - {each}" for each in sorted(then - now)]
            elif now != then:
                found.append(f"{field}: {then} → {now}")
        return found


def _names(folder: Path) -> frozenset[str]:
    return frozenset(each.name for each in folder.iterdir()) if folder.is_dir() else frozenset()


def _groups() -> frozenset[str]:
    groups = Cgroups.of_machine()
    inner = groups.children("/alcove")
    return frozenset([*groups.children("/"), *(f"alcove/{name}" for name in inner)])


def _processes(mark: str) -> frozenset[str]:
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if mark in words:
                found.add(f"{entry.name} {words[:200]}")
    return frozenset(found)


def _tables() -> frozenset[str]:
    program = shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        return frozenset()
    told = subprocess.run([program, "list", "tables"], capture_output=True, text=True, check=False).stdout
    return frozenset(told.splitlines())
