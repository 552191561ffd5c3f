"""Labels of all nodes as columns: per key an array of value ids, 0 where a node lacks the key.

A selector over 5,000 nodes is then one array comparison, and the ids serve as topology domains. Ids of unused
values are reused.
"""

import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from alcove.scheduler.arrays import Bools, Ids, Rows

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}").fullmatch


def integer(text: str) -> int | None:
    """The 64-bit integer in the text. None if it is not one."""
    if not _INTEGER(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class LabelColumn:
    """One label key. `ids` has an element per slot."""

    __slots__ = ("_free", "_uses", "_values", "ids", "texts")

    def __init__(self, slots: int) -> None:
        self.ids: Ids = np.zeros(slots, dtype=np.int32)
        self.texts: list[str] = [""]
        """The value of each id."""
        self._values: dict[str, int] = {}
        self._uses = [0]
        self._free: list[int] = []

    @property
    def size(self) -> int:
        """One more than the greatest id."""
        return len(self.texts)

    @property
    def is_unused(self) -> bool:
        return not self._values

    def is_any_of(self, values: Iterable[str], rows: Rows) -> Bools:
        """Which nodes' value is one of `values`."""
        ids = [found for value in values if (found := self._values.get(value)) is not None]
        if len(ids) == 1:
            return np.equal(self.ids[rows], ids[0])
        return self._chosen(ids, rows)

    def is_number(self, test: Callable[[int], bool], rows: Rows) -> Bools:
        """Which nodes' value is an integer that passes the test."""
        passing = [
            found
            for value, found in self._values.items()
            if (number := integer(value)) is not None and test(number)
        ]
        return self._chosen(passing, rows)

    def _chosen(self, ids: list[int], rows: Rows) -> Bools:
        is_chosen = np.zeros(self.size, dtype=np.bool_)
        is_chosen[ids] = True
        chosen: Bools = is_chosen[self.ids[rows]]
        return chosen

    def put(self, slot: int, value: str) -> None:
        self.drop(slot)
        found = self._values.get(value)
        if found is None:
            found = self._values[value] = self._new_id(value)
        self._uses[found] += 1
        self.ids[slot] = found

    def _new_id(self, value: str) -> int:
        if self._free:
            found = self._free.pop()
            self.texts[found] = value
            return found
        self.texts.append(value)
        self._uses.append(0)
        return len(self.texts) - 1

    def drop(self, slot: int) -> None:
        old = int(self.ids[slot])
        if old == 0:
            return
        self.ids[slot] = 0
        self._uses[old] -= 1
        if self._uses[old] == 0:
            del self._values[self.texts[old]]
            self._free.append(old)

    def grow(self, slots: int) -> None:
        self.ids = np.concatenate([self.ids, np.zeros(slots - len(self.ids), dtype=np.int32)])


class Columns:
    """The columns of all label keys that nodes have."""

    def __init__(self) -> None:
        self._columns: dict[str, LabelColumn] = {}
        self._slots = 0

    def get(self, key: str) -> LabelColumn | None:
        """The key's column. None if no node has the key."""
        return self._columns.get(key)

    def grow(self, slots: int) -> None:
        self._slots = slots
        for column in self._columns.values():
            column.grow(slots)

    def replace(self, slot: int, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        """A node's labels change from `old` to `new`."""
        for key in old.keys() - new.keys():
            column = self._columns[key]
            column.drop(slot)
            if column.is_unused:
                del self._columns[key]
        for key, value in new.items():
            if old.get(key) == value:
                continue
            found = self._columns.get(key)
            if found is None:
                found = self._columns[key] = LabelColumn(self._slots)
            found.put(slot, value)
