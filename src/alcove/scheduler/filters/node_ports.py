"""Host ports must be free on the node."""

import numpy as np

from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.causes import WakeCause
from alcove.scheduler.filters.base import Filter, FilterScope
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache


class NodePorts(Filter):
    name = "NodePorts"
    scope = FilterScope.USE
    reason = "node(s) didn't have free ports for the requested pod ports"
    is_curable = True
    cured_by = WakeCause.NODE_ADDED | WakeCause.ROOM

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        return bool(pod.shape.ports)

    def passes(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Bools:
        taken, desired = cache.nodes.ports, pod.shape.ports
        if isinstance(rows, slice):
            return taken.free_everywhere(cache.nodes.size, desired)[rows]
        return np.array([taken.is_free(int(slot), desired) for slot in rows], dtype=np.bool_)
