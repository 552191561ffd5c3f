"""The scheduling-relevant volumes of a pod: claims and inline disks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct

from alcove.api.objects import Object
from alcove.scheduler.arrays import Bools

_DISKS = ("gcePersistentDisk", "awsElasticBlockStore", "rbd", "iscsi")
_SCHEDULED = ("persistentVolumeClaim", "ephemeral", *_DISKS)


class ClaimUse(Struct, frozen=True):
    name: str
    is_ephemeral: bool = False
    """The claim of an ephemeral volume; the pod must own it."""


class SharedDisk(Struct, frozen=True):
    """A disk that several pods on one node may not be able to share."""

    kind: str
    ids: frozenset[str]
    """Two disks are the same if they have one of these in common."""
    pool: str = ""
    is_read_only: bool = False

    def conflicts(self, other: SharedDisk) -> bool:
        """Disks conflict unless both are read-only; an AWS disk always conflicts."""
        if self.kind != other.kind or self.pool != other.pool or not self.ids & other.ids:
            return False
        return self.kind == "awsElasticBlockStore" or not (self.is_read_only and other.is_read_only)


def schedulable(spec: Object) -> list[Object]:
    """The volumes that affect scheduling."""
    return [
        {kind: volume[kind], "name": volume.get("name")} if kind == "ephemeral" else {kind: volume[kind]}
        for volume in spec.get("volumes") or ()
        for kind in _SCHEDULED
        if volume.get(kind)
    ]


def read_claims(pod: Object) -> tuple[ClaimUse, ...]:
    found = []
    for volume in pod["spec"].get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            found.append(ClaimUse(claim.get("claimName") or ""))
        elif volume.get("ephemeral"):
            found.append(ClaimUse(f"{pod['metadata']['name']}-{volume.get('name', '')}", True))
    return tuple(found)


def read_disks(spec: Object) -> tuple[SharedDisk, ...]:
    found = []
    for volume in spec.get("volumes") or ():
        for kind in _DISKS:
            if source := volume.get(kind):
                found.append(_disk(kind, source))
    return tuple(found)


def _disk(kind: str, source: Object) -> SharedDisk:
    read_only = bool(source.get("readOnly"))
    if kind == "gcePersistentDisk":
        return SharedDisk(kind, _one(source.get("pdName")), "", read_only)
    if kind == "awsElasticBlockStore":
        return SharedDisk(kind, _one(source.get("volumeID")), "", read_only)
    if kind == "iscsi":
        return SharedDisk(kind, _one(source.get("iqn")), "", read_only)
    monitors: Sequence[str] = source.get("monitors") or ()
    pool = f"{source.get('pool') or 'rbd'}/{source.get('image', '')}"
    return SharedDisk(kind, frozenset(monitors), pool, read_only)


def _one(name: str | None) -> frozenset[str]:
    return frozenset((name or "",))


class DisksInUse:
    """Inline disks of placed pods, and the nodes on which they are in use."""

    def __init__(self) -> None:
        self._used: dict[tuple[str, str], dict[int, Counter[SharedDisk]]] = {}
        """(kind, id) → slot → number of pods by the way they use the disk."""

    def use(self, slot: int, disks: Iterable[SharedDisk], sign: int = 1) -> None:
        """Counts a pod's use of the disks on the node (or, with -1, removes it)."""
        for disk in disks:
            for one in disk.ids:
                nodes = self._used.setdefault((disk.kind, one), {})
                uses = nodes.setdefault(slot, Counter())
                uses[disk] += sign
                if uses[disk] == 0:
                    del uses[disk]
                if not uses:
                    del nodes[slot]
                if not nodes:
                    del self._used[(disk.kind, one)]

    def available(self, slots: int, disks: Iterable[SharedDisk]) -> Bools:
        """For each of `slots` slots, whether a pod there could use all the disks."""
        free = np.ones(slots, dtype=np.bool_)
        for disk in disks:
            for one in disk.ids:
                for slot, uses in self._used.get((disk.kind, one), {}).items():
                    if any(disk.conflicts(other) for other in uses):
                        free[slot] = False
        return free
