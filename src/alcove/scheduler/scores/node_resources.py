"""Resource usage of the node with the pod: less is better (LeastAllocated), or more is better
(MostAllocated).

Containers without requests count as 100m CPU and 200 MiB memory here, so that they are not all placed on one
node.
"""

from __future__ import annotations

import numpy as np

from alcove.scheduler.arrays import Ints, Rows
from alcove.scheduler.filters.base import FilterScope
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.resource_amounts import CPU, MEMORY
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.scores.base import BEST, Score
from alcove.scheduler.snapshot import CPU_ROW, MEMORY_ROW

EVENLY = {CPU: 1, MEMORY: 1}
_SHOWN = {CPU_ROW: 0, MEMORY_ROW: 1}


class _Allocation(Score):
    name = "NodeResourcesFit"
    scope = FilterScope.USE

    def __init__(self, weights: dict[str, int] | None = None) -> None:
        self._weights = EVENLY if weights is None else weights

    def raw(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Ints:
        nodes = cache.nodes
        total = np.zeros(len(nodes.is_alive[rows]), dtype=np.int64)
        weights = np.zeros_like(total)
        for name, weight in self._weights.items():
            requested = self._requested(pod, name)
            row = nodes.rows.get(name)
            if row is None or (requested == 0 and row not in _SHOWN):
                continue
            capacity = nodes.allocatable[row][rows]
            used = nodes.shown[_SHOWN[row]] if row in _SHOWN else nodes.requested[row]
            has_resource = capacity > 0
            total += self._score(used[rows] + requested, np.maximum(capacity, 1)) * weight * has_resource
            weights += weight * has_resource
        mean: Ints = total // np.maximum(weights, 1)
        return mean

    @staticmethod
    def _requested(pod: SchedulerPod, name: str) -> int:
        requests = pod.shape.requests
        if name == CPU:
            return requests.shown_cpu
        return requests.shown_memory if name == MEMORY else requests.amounts.get(name, 0)

    def _score(self, used: Ints, capacity: Ints) -> Ints:
        raise NotImplementedError


class LeastAllocated(_Allocation):
    """Spreads load."""

    def _score(self, used: Ints, capacity: Ints) -> Ints:
        shares: Ints = np.maximum(capacity - used, 0) * BEST // capacity
        return shares


class MostAllocated(_Allocation):
    """Fills nodes one after another."""

    def _score(self, used: Ints, capacity: Ints) -> Ints:
        shares: Ints = np.minimum(used, capacity) * BEST // capacity
        return shares
