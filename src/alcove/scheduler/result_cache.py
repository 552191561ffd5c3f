"""Memos: what was found out about a shape, node by node, mended as nodes change.

Two equal pods in a row differ by one node in use: the second costs the arithmetic of that node and a
look for the maximum.
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
    """Of one shape. `ranked` is what most decisions need: the sum of final scores, -1 where the shape cannot go."""

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
        """The sum of final scores, wherever."""
        self.compared: list[tuple[Score, int, Ints]] = []
        """Scores whose worth depends on what the other nodes get: (score, weight, raw)."""
        self._changed_at = self._used_at = 0
        self._write_all(pod)

    @property
    def bytes(self) -> int:
        return self.size * (17 + 8 * len(self.compared))

    @property
    def feasible(self) -> Bools:
        return np.not_equal(self.ranked, INFEASIBLE)

    def refresh(self, pod: SchedulerPod) -> bool:
        """Mend what changed. False: make a new one, this is too old or no longer fits."""
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
            self.allowed[rows] = self._judge(pod, self._node_filters, rows)
            self._compare(pod)
        if used:
            self._write(pod, rows_of(used))
        self._changed_at, self._used_at = nodes.changed.position, nodes.used.position
        return True

    def _write_all(self, pod: SchedulerPod) -> None:
        nodes = self._cache.nodes
        self._changed_at, self._used_at = nodes.changed.position, nodes.used.position
        self.allowed = nodes.is_alive & self._judge(pod, self._node_filters, EVERY)
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
        fits = self.allowed[rows] & self._judge(pod, self._use_filters, rows)
        self.value[rows] = value
        self.ranked[rows] = np.where(fits, value, INFEASIBLE)

    def _judge(self, pod: SchedulerPod, filters: list[Filter], rows: Rows) -> Bools:
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
    """The most recently used ones, within a bound of memory."""

    def __init__(self, cache: SchedulerCache) -> None:
        self._cache = cache
        self._memos: OrderedDict[PodShape, ShapeResult] = OrderedDict()
        self._bytes = 0

    def get(self, pod: SchedulerPod, profile: SchedulerProfile) -> ShapeResult:
        shape = pod.shape
        memo = self._memos.get(shape)
        if memo is not None:
            if memo.refresh(pod):
                self._memos.move_to_end(shape)
                return memo
            self.forget(shape)
        memo = self._memos[shape] = ShapeResult(self._cache, pod, profile)
        self._bytes += memo.bytes
        while self._bytes > BYTES_MAX and len(self._memos) > 1:
            self.forget(next(iter(self._memos)))
        return memo

    def forget(self, shape: PodShape) -> None:
        memo = self._memos.pop(shape, None)
        if memo is not None:
            self._bytes -= memo.bytes

    def forget_all(self) -> None:
        self._memos.clear()
        self._bytes = 0
