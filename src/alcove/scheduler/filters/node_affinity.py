"""The pod's nodeSelector and required node affinity."""

from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.causes import WakeCause
from alcove.scheduler.filters.base import Filter, FilterScope
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache


class NodeAffinity(Filter):
    name = "NodeAffinity"
    scope = FilterScope.NODE
    reason = "node(s) didn't match Pod's node affinity/selector"
    cured_by = WakeCause.NODE_ADDED | WakeCause.NODE_RELABELED

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        return pod.shape.nodes is not None

    def fault(self, cache: SchedulerCache, pod: SchedulerPod) -> str:
        selector = pod.shape.nodes
        names = None if selector is None else selector.names
        return "pod affinity terms conflict" if names is not None and not names else ""

    def passes(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Bools:
        assert pod.shape.nodes is not None
        return pod.shape.nodes.matches(cache.nodes, rows)
