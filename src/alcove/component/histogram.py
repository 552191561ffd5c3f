"""A histogram that is cheap to observe and is converted to Prometheus' buckets only for a scrape."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate


class Histogram:
    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` are the buckets' upper bounds, in ascending order."""
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Prometheus' cumulative buckets: each counts all values up to its bound."""
        names = [*map(str, self._bounds), "+Inf"]
        return list(zip(names, accumulate(self.counts), strict=True))
