"""Sets of a job's indexes as text: `0-3,5,7-9`, ascending, below the number of completions."""

import re
from itertools import pairwise

_NUMBER = re.compile("[+-]?[0-9]{1,10}")


class IndexesError(ValueError):
    """The text is not a set of indexes; the message is the one Kubernetes uses."""


Interval = tuple[int, int]


def parse(text: str, completions: int) -> list[Interval]:
    """Return the first and last index of each interval. Raises IndexesError."""
    if not text:
        return []
    intervals = [_interval(part, completions) for part in text.split(",")]
    for (_, before), (first, _) in pairwise(intervals):
        if before >= first:
            raise IndexesError(f"non-increasing order, previous: {before}, current: {first}")
    return intervals


def _interval(text: str, completions: int) -> Interval:
    limits = text.split("-")
    if len(limits) > 2:
        raise IndexesError(
            f'the fragment "{text}" violates the requirement that an index interval can have at most two '
            "parts separated by '-'"
        )
    first, last = (_index(limit, completions) for limit in (limits[0], limits[-1]))
    if len(limits) == 2 and first >= last:
        raise IndexesError(f"non-increasing order, previous: {first}, current: {last}")
    return first, last


def _index(text: str, completions: int) -> int:
    if not _NUMBER.fullmatch(text):
        raise IndexesError(f'cannot convert string to integer for index: "{text}"')
    if int(text) >= completions:
        raise IndexesError(f'too large index: "{text}"')
    return int(text)


def count(intervals: list[Interval]) -> int:
    return sum(last - first + 1 for first, last in intervals)


def overlap(some: list[Interval], others: list[Interval]) -> int | None:
    """Return the first index in both sets; both must be ascending."""
    at, other = 0, 0
    while at < len(some) and other < len(others):
        first, last = max(some[at][0], others[other][0]), min(some[at][1], others[other][1])
        if first <= last:
            return first
        if some[at][1] < others[other][1]:
            at += 1
        else:
            other += 1
    return None
