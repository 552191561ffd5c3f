"""On which droplets the copies of a duty are: no two on one droplet, the least burdened first.

A copy stays where it is while its droplet lives; when that dies, another takes its place. Where there
are fewer droplets than copies, the last ones wait for more.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping

from msgspec import Struct

NOWHERE = ""


def place_copies(
    desired: int, placed: Mapping[int, str], live: Collection[str], load: Mapping[str, int]
) -> dict[int, str]:
    """Each copy's droplet, by the copy's index. `placed` is where they are now, `load` counts the duties of
    each droplet."""
    kept: dict[int, str] = {}
    used: set[str] = set()
    for index in range(desired):
        droplet = placed.get(index, NOWHERE)
        if droplet in live and droplet not in used:
            kept[index] = droplet
            used.add(droplet)
    homeless = [index for index in range(desired) if index not in kept]
    if homeless:
        others = (droplet for droplet in live if droplet not in used)
        chosen = heapq.nsmallest(len(homeless), others, key=lambda each: (load.get(each, 0), each))
        chosen += [NOWHERE] * (len(homeless) - len(chosen))
        kept.update(zip(homeless, chosen, strict=True))
    return kept


class PlacementStatus(Struct, frozen=True):
    """How the copies of a duty stand."""

    desired: int
    placed: int

    @property
    def is_whole(self) -> bool:
        return self.placed == self.desired

    def __str__(self) -> str:
        return f"{self.placed} of {self.desired} are on droplets"
