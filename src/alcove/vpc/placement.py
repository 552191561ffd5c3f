"""Places the copies of a duty on droplets: no two on one droplet, the least loaded droplets first. Pure: no
I/O.

A copy stays on its droplet while that is live, and moves to another one otherwise. If there are fewer
droplets than copies, the last copies stay unplaced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice

from msgspec import Struct

NOWHERE = ""


def place_copies(
    desired: int, placed: Mapping[int, str], live: Collection[str], by_load: Iterable[str]
) -> dict[int, str]:
    """Each copy's droplet, by the copy's index. `placed` holds the current droplets; `by_load` are the live ones,
    those with the fewest duties first, of which only as many are read as are needed."""
    homes: dict[int, str] = {}
    used: set[str] = set()
    for index in range(desired):
        droplet = placed.get(index, NOWHERE)
        if droplet in live and droplet not in used:
            homes[index] = droplet
            used.add(droplet)
    unplaced = [index for index in range(desired) if index not in homes]
    if unplaced:
        others = (droplet for droplet in by_load if droplet not in used)
        chosen = list(islice(others, len(unplaced)))
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
