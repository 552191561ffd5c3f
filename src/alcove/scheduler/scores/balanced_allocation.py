"""Balance of CPU and memory usage, and whether the pod improves it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alcove.scheduler.arrays import Ints, Rows
from alcove.scheduler.filters.base import FilterScope
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.resource_amounts import CPU, MEMORY
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.scores.base import BEST, Score
from alcove.scheduler.snapshot import CPU_ROW, MEMORY_ROW

Shares = NDArray[np.float64]


class BalancedAllocation(Score):
    name = "NodeResourcesBalancedAllocation"
    scope = FilterScope.USE

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        amounts = pod.shape.requests.amounts
        return CPU in amounts or MEMORY in amounts

    def raw(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Ints:
        nodes, amounts = cache.nodes, pod.shape.requests.amounts
        cpu, memory = nodes.allocatable[CPU_ROW][rows], nodes.allocatable[MEMORY_ROW][rows]
        cpu_used, memory_used = nodes.requested[CPU_ROW][rows], nodes.requested[MEMORY_ROW][rows]
        has_both = (cpu > 0) & (memory > 0)
        without = _balance(_share(cpu_used, cpu), _share(memory_used, memory), has_both)
        with_pod = _balance(
            _share(cpu_used + amounts.get(CPU, 0), cpu),
            _share(memory_used + amounts.get(MEMORY, 0), memory),
            has_both,
        )
        # Towards 100 if the balance improves, towards 50 if it gets worse; 75 if it does not change.
        return BEST // 2 + (BEST // 2 + with_pod - without) // 2


def _share(used: Ints, capacity: Ints) -> Shares:
    shares: Shares = np.minimum(used / np.maximum(capacity, 1), 1.0)
    return shares


def _balance(cpu: Shares, memory: Shares, has_both: NDArray[np.bool_]) -> Ints:
    """A node with only one of the two resources is balanced."""
    apart = np.abs((cpu - memory) / 2) * has_both
    balance: Ints = ((1 - apart) * BEST).astype(np.int64)
    return balance
