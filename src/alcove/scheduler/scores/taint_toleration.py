"""Nodes with untolerated PreferNoSchedule taints score lower."""

from alcove.scheduler.arrays import Bools, Ints, Rows
from alcove.scheduler.filters.base import FilterScope
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.scores.base import Score, by_absence
from alcove.scheduler.taints import disliked


class TaintTolerationScore(Score):
    name = "TaintToleration"
    scope = FilterScope.NODE

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        return cache.nodes.taints.has_preferences

    def raw(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Ints:
        tolerations = pod.shape.tolerations
        return cache.nodes.taints.count(lambda taints: disliked(taints, tolerations), rows)

    def normalized(self, cache: SchedulerCache, pod: SchedulerPod, raw: Ints, feasible: Bools) -> Ints:
        return by_absence(raw, feasible)
