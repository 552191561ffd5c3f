"""Preferred node affinity: the sum of the weights of matching terms."""

import numpy as np

from alcove.scheduler.arrays import Bools, Ints, Rows
from alcove.scheduler.filters.base import FilterScope
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.scores.base import Score, by_share


class NodeAffinityScore(Score):
    name = "NodeAffinity"
    scope = FilterScope.NODE

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        return bool(pod.shape.preferred_nodes)

    def raw(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Ints:
        nodes = cache.nodes
        total = np.zeros(len(nodes.is_alive[rows]), dtype=np.int64)
        for weight, term in pod.shape.preferred_nodes:
            # An empty preference matches no node, like an empty required term.
            total += term.matches(nodes, rows) * weight
        return total

    def normalized(self, cache: SchedulerCache, pod: SchedulerPod, raw: Ints, feasible: Bools) -> Ints:
        return by_share(raw, feasible)
