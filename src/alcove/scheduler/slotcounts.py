"""Small numbers per slot: a dict while few slots have one, an array once many do.

So memory follows what is counted, not nodes times selectors, and reading stays a matter of arrays.
"""

import numpy as np

from alcove.scheduler.arrays import Ints

_DENSE_SHARE = 16
"""One slot in so many counted: an array is then no larger than the dict."""


class SlotCounts:
    __slots__ = ("_array", "_few")

    def __init__(self) -> None:
        self._few: dict[int, int] = {}
        self._array: Ints | None = None

    def add(self, slot: int, amount: int) -> None:
        if self._array is not None and slot < len(self._array):
            self._array[slot] += amount
            return
        total = self._few.get(slot, 0) + amount
        if total:
            self._few[slot] = total
        else:
            self._few.pop(slot, None)

    def __bool__(self) -> bool:
        """Whether anything is counted."""
        return bool(self._few) or (self._array is not None and bool(self._array.any()))

    def get(self, slot: int) -> int:
        if self._array is not None and slot < len(self._array):
            return int(self._array[slot])
        return self._few.get(slot, 0)

    def vector(self, size: int) -> Ints:
        """All counts as an array of so many slots; not to be changed."""
        if self._array is not None and len(self._array) == size:
            return self._array
        array = np.zeros(size, dtype=np.int64)
        if self._array is not None:
            array[: len(self._array)] = self._array
        if self._few:
            slots = np.fromiter(self._few.keys(), dtype=np.intp, count=len(self._few))
            array[slots] = np.fromiter(self._few.values(), dtype=np.int64, count=len(self._few))
        if self._array is not None or len(self._few) * _DENSE_SHARE > size:
            self._array, self._few = array, {}
        return array

    def items(self) -> list[tuple[int, int]]:
        found = list(self._few.items())
        if self._array is not None:
            slots = np.flatnonzero(self._array)
            found += zip(slots.tolist(), self._array[slots].tolist(), strict=True)
        return found
