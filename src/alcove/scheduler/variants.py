"""Few different values on many nodes (sets of taints, of runtime handlers): each is kept once and has an id.

A question is asked once per value, not once per node. Ids of values that no node has any more are given
out again: nodes whose taints change all the time leave nothing behind.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from alcove.scheduler.arrays import Bools, Ids, Ints, Rows

T = TypeVar("T")


class Variants(Generic[T]):
    def __init__(self, nothing: T) -> None:
        """`nothing` is the value of slots that were given none."""
        self._nothing = nothing
        self._ids: Ids = np.zeros(0, dtype=np.int32)
        self._values = [nothing]
        self._numbers = {nothing: 0}
        self._uses = [0]
        self._free: list[int] = []

    def __len__(self) -> int:
        """How many values are kept."""
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

    def test(self, judge: Callable[[T], bool], rows: Rows) -> Bools:
        verdicts = np.array([judge(value) for value in self._values], dtype=np.bool_)
        answers: Bools = verdicts[self._ids[rows]]
        return answers

    def count(self, judge: Callable[[T], int], rows: Rows) -> Ints:
        counts = np.array([judge(value) for value in self._values], dtype=np.int64)
        answers: Ints = counts[self._ids[rows]]
        return answers
