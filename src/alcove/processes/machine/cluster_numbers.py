"""Which numbers the clusters of this machine have: one that is free, taken for good until it is given back.

A claim is a folder in /run/alcove, made in one step; it names whose it is. A claim whose cluster is gone, or
has another number by now, counts no more.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from msgspec.structs import replace

from alcove.processes.machine import cluster
from alcove.processes.machine.cluster import RUN, TOKENS, BadCluster, LocalCluster

OWNER = "cluster"


class NoFreeNumber(Exception):
    pass


def claim(wanted: LocalCluster) -> LocalCluster:
    """The cluster with a number that is its own on this machine from now on. Raises NothingFree."""
    taken = routes()
    for step in range(TOKENS):
        tried = replace(wanted, number=(wanted.number + step) % TOKENS)
        if _is_own(tried) or (not _overlaps(tried, taken) and _take(tried)):
            return tried
    raise NoFreeNumber(f"no range of {cluster.RANGE} is free for the nodes' underlay: routes take them all")


def release(given: LocalCluster) -> None:
    """Idempotent; what else is in the claim's folder must be gone."""
    if _is_own(given):
        for kept in given.run.iterdir():
            kept.unlink()
        given.run.rmdir()
        if not any(RUN.iterdir()):
            RUN.rmdir()


def others(given: LocalCluster) -> list[str]:
    """Tokens of other clusters that hold something on this machine."""
    found = RUN.iterdir() if RUN.is_dir() else ()
    return [each.name for each in found if each != given.run and (each / OWNER).exists()]


def held_by(data: Path) -> list[LocalCluster]:
    """What the cluster in that folder holds on this machine, by the claims alone."""
    found = sorted(RUN.iterdir()) if RUN.is_dir() else []
    tokens = [each.name for each in found if re.fullmatch("[0-9a-z]{2}", each.name)]
    return [each for each in (LocalCluster.of_token(data, token) for token in tokens) if _is_own(each)]


def routes() -> list[IPv4Network]:
    """Networks that this machine has a way to, apart from the default route."""
    found = []
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[7], 16):
            target, mask = (IPv4Address(bytes.fromhex(each)[::-1]) for each in (fields[1], fields[7]))
            found.append(IPv4Network(f"{target}/{mask}"))
    return found


def _overlaps(wanted: LocalCluster, taken: list[IPv4Network]) -> bool:
    return any(wanted.underlay.overlaps(each) for each in taken)


def _take(wanted: LocalCluster) -> bool:
    RUN.mkdir(parents=True, exist_ok=True)
    try:
        wanted.run.mkdir()
    except FileExistsError:
        if not _is_abandoned(wanted):
            return False
    (wanted.run / OWNER).write_text(str(wanted.data))
    return True


def _is_own(given: LocalCluster) -> bool:
    return _owner(given) == str(given.data)


def _is_abandoned(wanted: LocalCluster) -> bool:
    owner = _owner(wanted)
    if not owner:
        return True  # A kill between the two steps of claiming.
    try:
        theirs = cluster.load(Path(owner))
    except BadCluster:
        return False
    return theirs is None or theirs.number != wanted.number


def _owner(given: LocalCluster) -> str:
    try:
        return (given.run / OWNER).read_text()
    except FileNotFoundError:
        return ""
