"""Taints that forbid placing (NoSchedule, NoExecute) have to be tolerated.

The reason does not name the taint: tenants must not see ring0's taints (Kubernetes omits it too since 1.35).
"""

from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.causes import WakeCause
from alcove.scheduler.filters.base import Filter, FilterScope
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.taints import forbids


class TaintToleration(Filter):
    name = "TaintToleration"
    scope = FilterScope.NODE
    reason = "node(s) had untolerated taint(s)"
    cured_by = WakeCause.NODE_ADDED | WakeCause.NODE_RETAINTED

    def passes(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Bools:
        tolerations = pod.shape.tolerations
        return cache.nodes.taints.test(lambda taints: not forbids(taints, tolerations), rows)
