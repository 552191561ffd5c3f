"""Cordoned nodes accept only pods that tolerate it."""

from alcove.api.tolerations import is_tolerated
from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.causes import WakeCause
from alcove.scheduler.filters.base import Filter, FilterScope
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.taints import UNSCHEDULABLE


class NodeUnschedulable(Filter):
    name = "NodeUnschedulable"
    scope = FilterScope.NODE
    reason = "node(s) were unschedulable"
    cured_by = WakeCause.NODE_ADDED | WakeCause.NODE_RETAINTED

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        return not is_tolerated(UNSCHEDULABLE, pod.shape.tolerations)

    def passes(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Bools:
        return ~cache.nodes.is_unschedulable[rows]
