"""Few distinct values on many nodes (sets of taints, of runtime handlers): each is stored once and has an id.

A predicate is evaluated once per value, not once per node. Ids of unused values are reused, so that nodes
with frequently changing taints do not leak memory.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from alcove.scheduler.arrays import Bools, Ids, Ints, Rows

T = TypeVar("T")


class Variants(Generic[T]):
    def __init__(self, nothing: T) -> None:
        """`nothing` is the value of unset slots."""
        self._nothing = nothing
        self._ids: Ids = np.zeros(0, dtype=np.int32)
        self._values = [nothing]
        self._numbers = {nothing: 0}
        self._uses = [0]
        self._free: list[int] = []

    def __len__(self) -> int:
        """Number of stored values."""
        return len(self._numbers)

    def grow(self, slots: int) -> None:
        self._uses[0] += slots - len(self._ids)
        self._ids = np.concatenate([self._ids, np.zeros(slots - len(self._ids), dtype=np.int32)])

    def get(self, slot: int) -> T:
        return self._values[int(self._ids[slot])]

    def put(self, slot: int, value: T) -> None:
        old = int(self._ids[slot])
        found = self._numbers.get(value)
        if found is None:
            found = self._new(value)
        self._uses[found] += 1
        self._ids[slot] = found
        self._uses[old] -= 1
        if old and not self._uses[old]:
            del self._numbers[self._values[old]]
            self._values[old] = self._nothing
            self._free.append(old)

    def _new(self, value: T) -> int:
        if self._free:
            found = self._free.pop()
            self._values[found] = value
        else:
            found = len(self._values)
            self._values.append(value)
            self._uses.append(0)
        self._numbers[value] = found
        return found

    def test(self, evaluate: Callable[[T], bool], rows: Rows) -> Bools:
        results = np.array([evaluate(value) for value in self._values], dtype=np.bool_)
        by_slot: Bools = results[self._ids[rows]]
        return by_slot

    def any(self, evaluate: Callable[[T], bool]) -> bool:
        """Whether any node has a value for which it holds."""
        return any(map(evaluate, self._numbers))

    def count(self, evaluate: Callable[[T], int], rows: Rows) -> Ints:
        counts = np.array([evaluate(value) for value in self._values], dtype=np.int64)
        by_slot: Ints = counts[self._ids[rows]]
        return by_slot
