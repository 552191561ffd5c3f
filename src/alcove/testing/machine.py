"""What a machine has of one cluster: nothing before it is up, and nothing after it is down."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from alcove.agent.cgroups import Cgroups
from alcove.processes.machine.cluster import RUN, Cluster
from alcove.processes.machine.mounts import mounted

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


def traces(cluster: Cluster) -> list[str]:
    """Everything in the kernel that is named after the cluster or works in its folder, in words."""
    own = re.compile(rf"alcove[-_/]{cluster.token}[0-9a-z]{{0,2}}\b")
    inner = Cgroups.of_machine().children("/alcove")
    named = {
        "namespace": _names(Path("/run/netns")),
        "link": [
            *(f"alcove-{name[2:]}" for name in _names(Path("/sys/class/net")) if name == cluster.uplink)
        ],
        "table": _tables(),
        "cgroup": [f"alcove/{name}" for name in inner],
        "claim": [f"alcove/{name}" for name in _names(RUN)],
    }
    found = [f"{kind} {name}" for kind, names in named.items() for name in names if own.search(name)]
    places = (f"{cluster.data}/", f"{cluster.run}/")
    found += [f"mount {path}" for path in mounted() if f"{path}/".startswith(places)]
    return found + [f"process {words}" for words in _processes(str(cluster.data))]


def _names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []


def _processes(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if f"{mark}/" in words or f"{mark} " in words:
                found.append(f"{entry.name} {words[:200]}")
    return found


def _tables() -> list[str]:
    program = shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        return []
    told = subprocess.run([program, "list", "tables"], capture_output=True, text=True, check=False).stdout
    return told.splitlines()
