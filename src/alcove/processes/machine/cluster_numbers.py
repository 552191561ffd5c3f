"""Allocation of numbers to local clusters: a cluster claims a free number and holds it until it is released.

A claim is a directory in /run/alcove, created atomically; it contains the owner's path. A claim whose cluster
no longer exists, or has another number, is invalid.
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


def claim(candidate: LocalCluster) -> LocalCluster:
    """The cluster with the number it has claimed. Raises NoFreeNumber."""
    routed = routes()
    for step in range(TOKENS):
        attempt = replace(candidate, number=(candidate.number + step) % TOKENS)
        if _is_owned(attempt) or (not _overlaps(attempt, routed) and _take(attempt)):
            return attempt
    raise NoFreeNumber(
        f"no free /24 in {cluster.RANGE} for the nodes' underlay: existing routes overlap all of them"
    )


def release(claimed: LocalCluster) -> None:
    """Releases the claim. Idempotent. Other contents of the claim's directory must have been removed."""
    if _is_owned(claimed):
        for file in claimed.run.iterdir():
            file.unlink()
        claimed.run.rmdir()
        if not any(RUN.iterdir()):
            RUN.rmdir()


def others(claimed: LocalCluster) -> list[str]:
    """Tokens of other clusters with a claim on this machine."""
    found = RUN.iterdir() if RUN.is_dir() else ()
    return [each.name for each in found if each != claimed.run and (each / OWNER).exists()]


def held_by(data: Path) -> list[LocalCluster]:
    """The claims of the cluster in the directory."""
    found = sorted(RUN.iterdir()) if RUN.is_dir() else []
    tokens = [each.name for each in found if re.fullmatch("[0-9a-z]{2}", each.name)]
    return [each for each in (LocalCluster.of_token(data, token) for token in tokens) if _is_owned(each)]


def routes() -> list[IPv4Network]:
    """Destinations of this machine's routes, except the default route."""
    found = []
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[7], 16):
            target, mask = (IPv4Address(bytes.fromhex(each)[::-1]) for each in (fields[1], fields[7]))
            found.append(IPv4Network(f"{target}/{mask}"))
    return found


def _overlaps(candidate: LocalCluster, routed: list[IPv4Network]) -> bool:
    return any(candidate.underlay.overlaps(each) for each in routed)


def _take(candidate: LocalCluster) -> bool:
    RUN.mkdir(parents=True, exist_ok=True)
    try:
        candidate.run.mkdir()
    except FileExistsError:
        if not _is_abandoned(candidate):
            return False
    (candidate.run / OWNER).write_text(str(candidate.data))
    return True


def _is_owned(claimed: LocalCluster) -> bool:
    return _owner(claimed) == str(claimed.data)


def _is_abandoned(candidate: LocalCluster) -> bool:
    owner = _owner(candidate)
    if not owner:
        return True  # Killed between the two steps of claiming.
    try:
        other = cluster.load(Path(owner))
    except BadCluster:
        return False
    return other is None or other.number != candidate.number


def _owner(claimed: LocalCluster) -> str:
    try:
        return (claimed.run / OWNER).read_text()
    except FileNotFoundError:
        return ""
