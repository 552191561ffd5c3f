"""Completion indexes of pods, and sets of them (`0-2,5`).

A set is kept as its intervals: a job may have two billion completions, and its owner writes which of them are complete.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Set

from alcove.api import objects
from alcove.api.objects import Object, get

INDEX = "batch.kubernetes.io/job-completion-index"
_PARTS = re.compile("(?:^|,)([0-9]{1,10})(?:-([0-9]{1,10})?)?(?=,|$)")
FAILURES = "batch.kubernetes.io/job-index-failure-count"


def is_indexed(job: Object) -> bool:
    return bool(get(job, "spec", "completionMode") == "Indexed")


def index_of(pod: Object) -> int | None:
    return number(objects.annotations(pod).get(INDEX, ""))


def failures_before(pod: Object) -> int:
    """The number of failures of the pod's index before the pod was created."""
    return number(objects.annotations(pod).get(FAILURES, "")) or 0


def number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None


class IndexSet(Set[int]):
    """Indexes, as ascending intervals with gaps between them."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, indexes: Iterable[int] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for each in indexes:
            self.add(each)

    @classmethod
    def of_intervals(cls, intervals: Iterable[tuple[int, int]]) -> IndexSet:
        """Of first and last indexes, in any order."""
        result = cls()
        firsts, lasts = result._firsts, result._lasts
        for first, last in sorted(intervals):
            if lasts and first <= lasts[-1] + 1:
                lasts[-1] = max(lasts[-1], last)
            else:
                firsts.append(first)
                lasts.append(last)
        return result

    def add(self, index: int) -> None:
        at = bisect_right(self._firsts, index)
        if at and index <= self._lasts[at - 1]:
            return
        joins_before = at > 0 and self._lasts[at - 1] == index - 1
        joins_after = at < len(self._firsts) and self._firsts[at] == index + 1
        if joins_before and joins_after:
            self._lasts[at - 1] = self._lasts.pop(at)
            del self._firsts[at]
        elif joins_before:
            self._lasts[at - 1] = index
        elif joins_after:
            self._firsts[at] = index
        else:
            self._firsts.insert(at, index)
            self._lasts.insert(at, index)

    def intervals(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._lasts, strict=True)

    def __contains__(self, index: object) -> bool:
        at = bisect_right(self._firsts, index) if isinstance(index, int) else 0
        return at > 0 and index <= self._lasts[at - 1]  # type: ignore[operator]

    def __iter__(self) -> Iterator[int]:
        for first, last in self.intervals():
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def __hash__(self) -> int:
        raise TypeError("an IndexSet may change")

    def __or__(self, other: Iterable[int]) -> IndexSet:  # type: ignore[override]
        more = other.intervals() if isinstance(other, IndexSet) else ((each, each) for each in other)
        return self.of_intervals((*self.intervals(), *more))

    def below(self, end: int) -> int:
        """How many there are below `end`."""
        at = bisect_right(self._firsts, end - 1)
        within = sum(self._lasts[:at]) - sum(self._firsts[:at]) + at
        return within - max(0, self._lasts[at - 1] - end + 1) if at else 0

    def in_common(self, other: IndexSet) -> int:
        """How many are in both."""
        return sum(self.below(last + 1) - self.below(first) for first, last in other.intervals())

    def missing(self, end: int) -> Iterator[int]:
        """The indexes below `end` that are not in the set, ascending."""
        start = 0
        for first, last in self.intervals():
            yield from range(start, min(first, end))
            start = last + 1
        yield from range(start, end)


def parse(text: str, completions: int) -> IndexSet:
    """Invalid parts and indexes beyond `completions` are omitted."""
    found = ((int(first), int(last or first)) for first, last in _PARTS.findall(text))
    intervals = ((first, min(last, completions - 1)) for first, last in found)
    return IndexSet.of_intervals((first, last) for first, last in intervals if first <= last)


def render(indexes: IndexSet) -> str:
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in indexes.intervals())
