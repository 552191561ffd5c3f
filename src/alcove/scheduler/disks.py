"""Inline disks of pods, and the nodes on which they are in use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from alcove.scheduler.arrays import Bools
from alcove.scheduler.volumesources import SharedDisk


class DisksInUse:
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
