"""Taints that forbid placing (NoSchedule, NoExecute) have to be tolerated.

Which taint it was is not told: ring0's taints are none of the tenants' business (and since 1.35
Kubernetes does not tell either).
"""

from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.causes import Cause
from alcove.scheduler.filters.base import Filter, Scope
from alcove.scheduler.pods import Pod
from alcove.scheduler.taints import forbids
from alcove.scheduler.world import World


class TaintToleration(Filter):
    name = "TaintToleration"
    scope = Scope.NODE
    reason = "node(s) had untolerated taint(s)"
    cured_by = Cause.NODE_ADDED | Cause.NODE_RETAINTED

    def passes(self, world: World, pod: Pod, rows: Rows) -> Bools:
        tolerations = pod.shape.tolerations
        return world.nodes.taints.test(lambda taints: not forbids(taints, tolerations), rows)
