"""The event recorder's memory: hash tables of a fixed size, which need no cleanup when objects are deleted.

On a collision two entries share a position, or the older entry is forgotten: then a repeated event is created
anew instead of counted, or an object may record somewhat fewer events. In return the memory is bounded,
however many tenants were ever created and deleted.
"""

from __future__ import annotations

from array import array

BURST_PER_OBJECT = 25
REFILL_SECONDS = 300.0
"""After a burst, an object may record one more event per this time."""
SLOTS = 1 << 13
"""Size of each table; a power of two."""


class EventBudget:
    """Limits the rate of new events per object (a token bucket)."""

    def __init__(self) -> None:
        self._used = array("d", bytes(8 * SLOTS))
        self._since = array("d", bytes(8 * SLOTS))

    def take(self, object_key: object, now: float) -> bool:
        """Whether the object may record another event now; if so, it is counted."""
        position = hash(object_key) % SLOTS
        refilled = (now - self._since[position]) / REFILL_SECONDS
        used = max(self._used[position] - refilled, 0.0)
        self._since[position] = now
        is_allowed = used + 1 <= BURST_PER_OBJECT
        self._used[position] = used + 1 if is_allowed else used
        return is_allowed


class WrittenEvents:
    """The recently written events: the time of the first (part of the event's name), of the last, and the
    count."""

    def __init__(self) -> None:
        self._hashes = array("q", bytes(8 * SLOTS))
        self._first = array("d", bytes(8 * SLOTS))
        self._last = array("d", bytes(8 * SLOTS))
        self._count = array("q", bytes(8 * SLOTS))
        """0 if the position is free."""

    def find(self, dedup_key: object, now: float, seconds_max: float) -> int | None:
        """The position of an event that was last recorded within this time; None if there is none."""
        digest = hash(dedup_key)
        for position in _positions(digest):
            is_same = self._count[position] and self._hashes[position] == digest
            if is_same and now - self._last[position] < seconds_max:
                return position
        return None

    def first(self, position: int) -> float:
        return self._first[position]

    def count(self, position: int) -> int:
        return self._count[position]

    def put(self, dedup_key: object, now: float) -> None:
        """Record a newly written event. It replaces the older one of the two entries at its positions."""
        digest = hash(dedup_key)
        position = min(_positions(digest), key=lambda each: (self._hashes[each] != digest, self._last[each]))
        self._hashes[position], self._first[position], self._last[position] = digest, now, now
        self._count[position] = 1

    def add(self, dedup_key: object, position: int, now: float) -> None:
        """Count a repeated event, unless another entry replaced it meanwhile."""
        if self._hashes[position] == hash(dedup_key):
            self._last[position] = now
            self._count[position] += 1

    def forget(self, dedup_key: object, position: int) -> None:
        if self._hashes[position] == hash(dedup_key):
            self._count[position] = 0


def _positions(digest: int) -> tuple[int, int]:
    return digest % SLOTS, digest % SLOTS ^ 1
