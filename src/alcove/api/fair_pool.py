"""Items of several owners that together weigh no more than a bound: where one has to go, it is the oldest of the owner with most.

So whoever fills the pool loses its own, and an owner with less than an equal part of it loses nothing to others, however many they
are. What nobody has used for a while goes too, whosever it is: owners that are idle, or no longer there, have no part.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from alcove.api.owner_weights import OwnerWeights

Item = TypeVar("Item", bound=Hashable)

LOOKED_AT = 2
"""Items that are looked at for their age when one is added, so that there are never many that are too old."""


class _Place:
    __slots__ = ("since", "weight")

    def __init__(self, weight: int, since: float) -> None:
        self.weight = weight
        self.since = since


class FairPool(Generic[Item]):
    """Not for several threads at the same time."""

    def __init__(
        self,
        weight_max: int,
        idle_seconds: float,
        was_used: Callable[[Item], bool] = lambda _item: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`was_used`: whether an item was used since it was added, or this was last asked: then it is as if it were added now."""
        self._weight_max = weight_max
        self._idle_seconds = idle_seconds
        self._was_used = was_used
        self._clock = clock
        self._owned: OrderedDict[str, OrderedDict[Item, _Place]] = OrderedDict()
        """By owner, in the order in which their items are looked at; the oldest item first."""
        self._weights: OwnerWeights[str] = OwnerWeights()

    @property
    def weight(self) -> int:
        """Of all items."""
        return self._weights.total

    def add(self, owner: str, item: Item, weight: int) -> list[Item]:
        """Adds an item, or adds it anew. Returns those that have to go; it is among them if its owner would have most with it
        alone."""
        now = self._clock()
        self.remove(owner, item)
        self._owned.setdefault(owner, OrderedDict())[item] = _Place(weight, now)
        self._weights.add(owner, weight)
        gone = [old for _ in range(LOOKED_AT) if (old := self._idle_item(now)) is not None]
        while self._weights.total > self._weight_max:
            heaviest = self._weights.heaviest()
            owned = self._owned[heaviest]
            oldest = next(iter(owned))
            if self._was_used(oldest) or (oldest is item and len(owned) > 1):
                self._renew(heaviest, oldest, now)
            else:
                self.remove(heaviest, oldest)
                gone.append(oldest)
        return gone

    def remove(self, owner: str, item: Item) -> None:
        """Does nothing if it is not there."""
        owned = self._owned.get(owner)
        place = owned.pop(item, None) if owned is not None else None
        if place is not None:
            self._weights.add(owner, -place.weight)
            if not owned:
                del self._owned[owner]

    def _idle_item(self, now: float) -> Item | None:
        """Takes the oldest item of the next owner away, if nobody has used it for long."""
        if not self._owned:
            return None
        owner, owned = next(iter(self._owned.items()))
        self._owned.move_to_end(owner)
        oldest, place = next(iter(owned.items()))
        if now - place.since < self._idle_seconds:
            return None
        if self._was_used(oldest):
            self._renew(owner, oldest, now)
            return None
        self.remove(owner, oldest)
        return oldest

    def _renew(self, owner: str, item: Item, now: float) -> None:
        owned = self._owned[owner]
        owned[item].since = now
        owned.move_to_end(item)
