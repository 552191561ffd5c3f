"""Host ports must be free on the node."""

import numpy as np

from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.causes import Cause
from alcove.scheduler.filters.base import Filter, Scope
from alcove.scheduler.pods import Pod
from alcove.scheduler.world import World


class NodePorts(Filter):
    name = "NodePorts"
    scope = Scope.USE
    reason = "node(s) didn't have free ports for the requested pod ports"
    is_curable = True
    cured_by = Cause.NODE_ADDED | Cause.ROOM

    def applies(self, world: World, pod: Pod) -> bool:
        return bool(pod.shape.ports)

    def passes(self, world: World, pod: Pod, rows: Rows) -> Bools:
        taken, wanted = world.nodes.ports, pod.shape.ports
        if isinstance(rows, slice):
            return taken.free_everywhere(world.nodes.size, wanted)[rows]
        return np.array([taken.is_free(int(slot), wanted) for slot in rows], dtype=np.bool_)
