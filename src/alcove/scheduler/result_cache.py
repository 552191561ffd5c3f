"""Cached filter and score results of a shape for all nodes, updated incrementally as nodes change.

Between two equal pods in a row only one node changes: the second costs the arithmetic of that node and a
search for the maximum.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from alcove.scheduler.arrays import EVERY, Bools, Ints, Rows, rows_of
from alcove.scheduler.filters.base import Filter, FilterScope
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.profiles import SchedulerProfile
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.scores.base import Score
from alcove.scheduler.shapes import PodShape

BYTES_MAX = 64 << 20
INFEASIBLE = -1


class ShapeResult:
    """Results of one shape. `ranked` is the weighted sum of final scores, INFEASIBLE where the shape does not
    fit."""

    def __init__(self, cache: SchedulerCache, pod: SchedulerPod, profile: SchedulerProfile) -> None:
        self._cache = cache
        self._node_filters = _chosen(profile, FilterScope.NODE, cache, pod)
        self._use_filters = _chosen(profile, FilterScope.USE, cache, pod)
        self._node_scores = _scores(profile, FilterScope.NODE, cache, pod)
        self._use_scores = _scores(profile, FilterScope.USE, cache, pod)
        self._profile = profile
        self.size = cache.nodes.size
        self.allowed: Bools = np.zeros(self.size, dtype=np.bool_)
        self.ranked: Ints = np.zeros(self.size, dtype=np.int64)
        self.value: Ints = np.zeros(self.size, dtype=np.int64)
        """The weighted sum of final scores, also on infeasible nodes."""
        self.compared: list[tuple[Score, int, Ints]] = []
        """Scores that are normalized over all nodes: (score, weight, raw)."""
        self._changed_at = self._used_at = 0
        self._write_all(pod)

    @property
    def bytes(self) -> int:
        return self.size * (17 + 8 * len(self.compared))

    @property
    def feasible(self) -> Bools:
        return np.not_equal(self.ranked, INFEASIBLE)

    def refresh(self, pod: SchedulerPod) -> bool:
        """Updates changed slots. False if the result is too old and must be recomputed."""
        nodes = self._cache.nodes
        if nodes.size != self.size:
            return False
        changed, used = nodes.changed.since(self._changed_at), nodes.used.since(self._used_at)
        if changed is None or used is None or 2 * len(used) > self.size:
            return False
        if changed:
            if _scores(self._profile, FilterScope.NODE, self._cache, pod) != self._node_scores:
                return False
            rows = rows_of(changed)
            self.allowed[rows] = self._passing(pod, self._node_filters, rows)
            self._compare(pod)
        if used:
            self._write(pod, rows_of(used))
        self._changed_at, self._used_at = nodes.changed.position, nodes.used.position
        return True

    def _write_all(self, pod: SchedulerPod) -> None:
        nodes = self._cache.nodes
        self._changed_at, self._used_at = nodes.changed.position, nodes.used.position
        self.allowed = nodes.is_alive & self._passing(pod, self._node_filters, EVERY)
        self._compare(pod)
        self._write(pod, EVERY)

    def _compare(self, pod: SchedulerPod) -> None:
        self.compared = [
            (score, weight, score.raw(self._cache, pod, EVERY)) for score, weight in self._node_scores
        ]

    def _write(self, pod: SchedulerPod, rows: Rows) -> None:
        value = np.zeros(len(self.allowed[rows]), dtype=np.int64)
        for score, weight in self._use_scores:
            raw = score.raw(self._cache, pod, rows)
            value += raw if weight == 1 else raw * weight
        fits = self.allowed[rows] & self._passing(pod, self._use_filters, rows)
        self.value[rows] = value
        self.ranked[rows] = np.where(fits, value, INFEASIBLE)

    def _passing(self, pod: SchedulerPod, filters: list[Filter], rows: Rows) -> Bools:
        passing = self._cache.nodes.is_alive[rows]
        for each in filters:
            passing = passing & each.passes(self._cache, pod, rows)
        return passing


def _chosen(
    profile: SchedulerProfile, scope: FilterScope, cache: SchedulerCache, pod: SchedulerPod
) -> list[Filter]:
    return [each for each in profile.filters if each.scope is scope and each.applies(cache, pod)]


def _scores(
    profile: SchedulerProfile, scope: FilterScope, cache: SchedulerCache, pod: SchedulerPod
) -> list[tuple[Score, int]]:
    return [
        (score, weight)
        for score, weight in profile.scores
        if score.scope is scope and score.applies(cache, pod)
    ]


class ResultCache:
    """LRU cache of results, bounded by memory."""

    def __init__(self, cache: SchedulerCache) -> None:
        self._cache = cache
        self._results: OrderedDict[PodShape, ShapeResult] = OrderedDict()
        self._bytes = 0

    def get(self, pod: SchedulerPod, profile: SchedulerProfile) -> ShapeResult:
        shape = pod.shape
        result = self._results.get(shape)
        if result is not None:
            if result.refresh(pod):
                self._results.move_to_end(shape)
                return result
            self.forget(shape)
        result = self._results[shape] = ShapeResult(self._cache, pod, profile)
        self._bytes += result.bytes
        while self._bytes > BYTES_MAX and len(self._results) > 1:
            self.forget(next(iter(self._results)))
        return result

    def forget(self, shape: PodShape) -> None:
        result = self._results.pop(shape, None)
        if result is not None:
            self._bytes -= result.bytes
