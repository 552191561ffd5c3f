"""Snapshot of everything that a cluster could leave behind on a machine, compared before and after a test.

    before = look(mark)
    … processes are started with `mark` in their environment, or in the names of what they work on …
    assert left_since(before, mark, seconds_max=30) == []

New things have some time to disappear: the kernel removes namespaces and programs asynchronously, and
unrelated things come and go too. Processes without the mark are ignored.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from glob import glob
from pathlib import Path

from alcove.agent.cgroups import Cgroups
from alcove.dataplane import bpf

FOLDERS = (
    "/run",
    "/etc",
    "/dev",
    "/opt",
    "/srv",
    "/usr/local",
    "/var/lib",
    "/var/cache",
    "/var/spool",
    "/var/tmp",
)
VOLATILE = re.compile(
    r"nf_conntrack_count|/route/|/neigh/|/conf/(?!all/|default/)|random|rpf_flush|pts/\d|/dev/char/|/dev/block/"
)
"""Settings and files that change by themselves, and those of devices, which are compared separately."""
SHARED_GROUP = "alcove"
"""Shared by all clusters of the machine: it stays while one uses it."""
POLL_SECONDS = 0.25

Things = frozenset[str]


def look(mark: str) -> Things:
    """A description of each thing; the first word is its kind."""
    return frozenset(f"{kind} {thing}" for kind, find in KINDS.items() for thing in find()) | frozenset(
        f"process {each}" for each in processes(mark)
    )


def left_since(before: Things, mark: str, seconds_max: float) -> list[str]:
    """Things that are new and do not disappear within that time, and things that are missing."""
    now = look(mark)
    left = now - before
    deadline = time.monotonic() + seconds_max
    while (left or _missed(before, now)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        now = look(mark)
        left &= now
    return sorted(f"+ {each}" for each in left) + [f"- {each}" for each in _missed(before, now)]


def _missed(before: Things, now: Things) -> list[str]:
    """Missing settings, rules, and properties of remaining devices. Other missing things may be unrelated."""
    links = {each.split()[1].split("@")[0].rstrip(":") for each in now if each.startswith("link ")}
    return sorted(each for each in before - now if _is_missed(each, links))


def _is_missed(thing: str, links: set[str]) -> bool:
    match thing.split():
        case ["setting" | "rule", *_]:
            return True
        case ["address", link, *_]:
            return link in links
        case ["route", *words] if "dev" in words:
            return words[words.index("dev") + 1] in links
        case _:
            return False


def processes(mark: str) -> Iterator[str]:
    """Processes with the mark in their environment or arguments."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
                if mark.encode() in words + (entry / "environ").read_bytes():
                    yield f"{entry.name} {words.replace(bytes(1), b' ').decode(errors='replace')[:200]}"
            except OSError:
                continue  # The process has exited meanwhile.


def _network_namespaces() -> Iterator[str]:
    """Inodes of namespaces that have a name, contain a process, or are held open by one."""
    for pattern in ("/proc/[0-9]*/task/*/ns/net", "/proc/[0-9]*/fd/*"):
        # `Path.glob` raises for a process that ends meanwhile.
        for link in glob(pattern):  # noqa: PTH207
            try:
                target = str(Path(link).readlink())
            except OSError:
                continue
            if target.startswith("net:"):
                yield target
    named = Path("/run/netns")
    for path in named.iterdir() if named.is_dir() else ():
        yield f"named {path.name} {path.stat().st_ino}"


def _lines(*words: str) -> list[str]:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def _links() -> list[str]:
    return [
        line.split(" link/")[0].split(" state ")[0].split(": ", 1)[1] for line in _lines("ip", "-o", "link")
    ]


def _addresses() -> list[str]:
    return [line.split(" valid_lft")[0].split(": ", 1)[1] for line in _lines("ip", "-o", "address")]


def _routes() -> list[str]:
    return [
        *_lines("ip", "-4", "route", "show", "table", "all"),
        *_lines("ip", "-6", "route", "show", "table", "all"),
    ]


def _filters() -> Iterator[str]:
    yield from _lines("tc", "qdisc", "show")
    for device in Path("/sys/class/net").iterdir():
        for side in ("ingress", "egress"):
            for line in _lines("tc", "filter", "show", "dev", device.name, side):
                yield f"{device.name} {side} {line}"


def _firewall() -> Iterator[str]:
    table = ""
    for line in _lines("nft", "-s", "list", "ruleset"):
        table = line if line.startswith("table ") else table
        yield f"{table} {line.strip()}"
    for family in ("ip", "ip6", "arp"):
        names = Path(f"/proc/net/{family}_tables_names")
        if names.exists():
            yield from (f"{family}tables {line}" for line in names.read_text().split())


def _bpf_ids(kind: str) -> Iterator[str]:
    """All BPF objects of that kind in the kernel, pinned or not."""
    following: Callable[..., int] = getattr(bpf.library(), f"bpf_{kind}_get_next_id")
    number = ctypes.c_uint32(0)
    while following(number, ctypes.byref(number)) == 0:
        yield str(number.value)


def _mounts() -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        kind = fields[fields.index("-") + 1]
        yield f"{fields[4]} {kind}"


def _groups() -> Iterator[str]:
    for mount in Cgroups.of_machine().mounts:
        for folder, folders, _names in os.walk(mount.path):
            if not (folders and Path(folder) == mount.path / SHARED_GROUP):
                yield folder


def _loops() -> Iterator[str]:
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            yield f"{backing.parts[3]} {backing.read_text().strip()}"
        except OSError:
            continue


def _settings() -> Iterator[str]:
    for folder, _folders, names in os.walk("/proc/sys/net"):
        for name in names:
            path = Path(folder, name)
            if VOLATILE.search(str(path)):
                continue
            try:
                yield f"{path} {path.read_text().strip()}"
            except OSError:
                continue  # Write-only.


def _files(tops: Iterable[str] = FOLDERS) -> Iterator[str]:
    for top in tops:
        for folder, folders, names in os.walk(top):
            for name in (*folders, *names):
                path = f"{folder}/{name}"
                if not VOLATILE.search(path):
                    yield path


KINDS: dict[str, Callable[[], Iterable[str]]] = {
    "namespace": _network_namespaces,
    "link": _links,
    "address": _addresses,
    "route": _routes,
    "rule": lambda: _lines("ip", "rule"),
    "filter": _filters,
    "firewall": _firewall,
    "program": lambda: _bpf_ids("prog"),
    "map": lambda: _bpf_ids("map"),
    "bpf-link": lambda: _bpf_ids("link"),
    "mount": _mounts,
    "cgroup": _groups,
    "loop": _loops,
    "setting": _settings,
    "file": _files,
}
