"""Counts per slot: a dict while few slots have one, an array once many do.

Memory is proportional to what is counted, not to nodes times selectors, and reading gives arrays.
"""

import numpy as np

from alcove.scheduler.arrays import Ints

_DENSE_SHARE = 16
"""If one slot in this many is counted, an array is no larger than the dict."""


class SlotCounts:
    __slots__ = ("_array", "_sparse")

    def __init__(self) -> None:
        self._sparse: dict[int, int] = {}
        self._array: Ints | None = None

    def add(self, slot: int, amount: int) -> None:
        if self._array is not None and slot < len(self._array):
            self._array[slot] += amount
            return
        total = self._sparse.get(slot, 0) + amount
        if total:
            self._sparse[slot] = total
        else:
            self._sparse.pop(slot, None)

    def __bool__(self) -> bool:
        """Whether anything is counted."""
        return bool(self._sparse) or (self._array is not None and bool(self._array.any()))

    def get(self, slot: int) -> int:
        if self._array is not None and slot < len(self._array):
            return int(self._array[slot])
        return self._sparse.get(slot, 0)

    def vector(self, size: int) -> Ints:
        """All counts as an array of `size` slots. Do not modify it."""
        if self._array is not None and len(self._array) == size:
            return self._array
        array = np.zeros(size, dtype=np.int64)
        if self._array is not None:
            array[: len(self._array)] = self._array
        if self._sparse:
            slots = np.fromiter(self._sparse.keys(), dtype=np.intp, count=len(self._sparse))
            array[slots] = np.fromiter(self._sparse.values(), dtype=np.int64, count=len(self._sparse))
        if self._array is not None or len(self._sparse) * _DENSE_SHARE > size:
            self._array, self._sparse = array, {}
        return array

    def items(self) -> list[tuple[int, int]]:
        found = list(self._sparse.items())
        if self._array is not None:
            slots = np.flatnonzero(self._array)
            found += zip(slots.tolist(), self._array[slots].tolist(), strict=True)
        return found
