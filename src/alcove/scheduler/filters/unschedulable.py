"""Nodes that are cordoned take only pods that tolerate it."""

from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.causes import Cause
from alcove.scheduler.filters.base import Filter, Scope
from alcove.scheduler.pods import Pod
from alcove.scheduler.taints import UNSCHEDULABLE, is_tolerated
from alcove.scheduler.world import World


class NodeUnschedulable(Filter):
    name = "NodeUnschedulable"
    scope = Scope.NODE
    reason = "node(s) were unschedulable"
    cured_by = Cause.NODE_ADDED | Cause.NODE_RETAINTED

    def applies(self, world: World, pod: Pod) -> bool:
        return not is_tolerated(UNSCHEDULABLE, pod.shape.tolerations)

    def passes(self, world: World, pod: Pod, rows: Rows) -> Bools:
        return ~world.nodes.is_unschedulable[rows]
