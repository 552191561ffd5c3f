"""Places the copies of a duty on droplets: no two on one droplet, the least loaded droplets first. Pure: no
I/O.

A copy stays on its droplet while that is live, and moves to another one otherwise. If there are fewer
droplets than copies, the last copies stay unplaced.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping

from msgspec import Struct

NOWHERE = ""


def place_copies(
    desired: int, placed: Mapping[int, str], live: Collection[str], load: Mapping[str, int]
) -> dict[int, str]:
    """Each copy's droplet, by the copy's index. `placed` holds the current droplets, `load` the number of
    duties of each droplet."""
    homes: dict[int, str] = {}
    used: set[str] = set()
    for index in range(desired):
        droplet = placed.get(index, NOWHERE)
        if droplet in live and droplet not in used:
            homes[index] = droplet
            used.add(droplet)
    unplaced = [index for index in range(desired) if index not in homes]
    if unplaced:
        others = (droplet for droplet in live if droplet not in used)
        chosen = heapq.nsmallest(len(unplaced), others, key=lambda each: (load.get(each, 0), each))
        chosen += [NOWHERE] * (len(unplaced) - len(chosen))
        homes.update(zip(unplaced, chosen, strict=True))
    return homes


class PlacementStatus(Struct, frozen=True):
    """How many copies of a duty are desired and placed."""

    desired: int
    placed: int

    @property
    def is_whole(self) -> bool:
        return self.placed == self.desired

    def __str__(self) -> str:
        return f"{self.placed} of {self.desired} are on droplets"
