"""What each owner has of a pool that all share, and who has most: where something has to go, it is that owner's.

So whoever fills the pool loses its own, and an owner with less than an equal part of the pool loses nothing to others,
however many they are.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from typing import Generic, TypeVar

Owner = TypeVar("Owner", bound=Hashable)

_OUTDATED = 64
"""Entries more than two for each owner, before they are made anew."""


class OwnerWeights(Generic[Owner]):
    """Not for several threads at the same time."""

    def __init__(self) -> None:
        self._weights: dict[Owner, int] = {}
        self._heap: list[tuple[int, int, Owner]] = []
        """Negative weights, the largest first. Each owner has an entry that says no less than its weight; others are outdated."""
        self._serials = count()
        """So that owners of the same weight are not compared."""
        self.total = 0

    def of(self, owner: Owner) -> int:
        return self._weights.get(owner, 0)

    def add(self, owner: Owner, weight: int) -> None:
        """`weight` is negative for what the owner has no longer."""
        self.total += weight
        now = self._weights.get(owner, 0) + weight
        if not now:
            self._weights.pop(owner, None)
            return
        self._weights[owner] = now
        if weight > 0:
            heappush(self._heap, (-now, next(self._serials), owner))
            if len(self._heap) > 2 * len(self._weights) + _OUTDATED:
                self._heap = [(-each, next(self._serials), one) for one, each in self._weights.items()]
                heapify(self._heap)

    def heaviest(self) -> Owner:
        """The owner with most. There must be one."""
        while True:
            said, _, owner = self._heap[0]
            now = self._weights.get(owner, 0)
            if now == -said:
                return owner
            if now:
                heapreplace(self._heap, (-now, next(self._serials), owner))
            else:
                heappop(self._heap)
