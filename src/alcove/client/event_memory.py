"""What a recorder of events remembers: tables of a fixed size, by hash, in which nothing is kept of objects that are gone.

Two that meet in a place share it, or the older one is forgotten: then something is told anew instead of counted, or a
little less of it. That is no harm, and the memory is the same for one tenant and for a thousand that came and went.
"""

from __future__ import annotations

from array import array

BURST_PER_OBJECT = 25
REFILL_SECONDS = 300.0
"""After a burst, an object may tell one thing more each time this has passed."""
SLOTS = 1 << 13
"""Of each table; a power of two."""


class EventBudget:
    """How much each object may still tell."""

    def __init__(self) -> None:
        self._used = array("d", bytes(8 * SLOTS))
        self._since = array("d", bytes(8 * SLOTS))

    def take(self, mark: object, now: float) -> bool:
        place = hash(mark) % SLOTS
        refilled = (now - self._since[place]) / REFILL_SECONDS
        used = max(self._used[place] - refilled, 0.0)
        self._since[place] = now
        may = used + 1 <= BURST_PER_OBJECT
        self._used[place] = used + 1 if may else used
        return may


class WrittenEvents:
    """Which events were written lately: when first, which is in their names, when last, and how often."""

    def __init__(self) -> None:
        self._mark = array("q", bytes(8 * SLOTS))
        self._first = array("d", bytes(8 * SLOTS))
        self._last = array("d", bytes(8 * SLOTS))
        self._count = array("q", bytes(8 * SLOTS))
        """0: nobody has the place."""

    def find(self, sameness: object, now: float, seconds_max: float) -> int | None:
        """The place of an event that was last told within this time."""
        mark = hash(sameness)
        for place in _places(mark):
            if self._count[place] and self._mark[place] == mark and now - self._last[place] < seconds_max:
                return place
        return None

    def first(self, place: int) -> float:
        return self._first[place]

    def count(self, place: int) -> int:
        return self._count[place]

    def put(self, sameness: object, now: float) -> None:
        """It was written for the first time. Of two others in its places, the one told longer ago is forgotten."""
        mark = hash(sameness)
        place = min(_places(mark), key=lambda each: (self._mark[each] != mark, self._last[each]))
        self._mark[place], self._first[place], self._last[place] = mark, now, now
        self._count[place] = 1

    def add(self, sameness: object, place: int, now: float) -> None:
        """It was told once more; unless something else took the place meanwhile."""
        if self._mark[place] == hash(sameness):
            self._last[place] = now
            self._count[place] += 1

    def forget(self, sameness: object, place: int) -> None:
        if self._mark[place] == hash(sameness):
            self._count[place] = 0


def _places(mark: int) -> tuple[int, int]:
    return mark % SLOTS, mark % SLOTS ^ 1
