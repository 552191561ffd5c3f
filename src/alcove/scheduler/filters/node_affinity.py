"""The pod's nodeSelector and required node affinity."""

from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.causes import Cause
from alcove.scheduler.filters.base import Filter, Scope
from alcove.scheduler.pods import Pod
from alcove.scheduler.world import World


class NodeAffinity(Filter):
    name = "NodeAffinity"
    scope = Scope.NODE
    reason = "node(s) didn't match Pod's node affinity/selector"
    cured_by = Cause.NODE_ADDED | Cause.NODE_RELABELED

    def applies(self, world: World, pod: Pod) -> bool:
        return pod.shape.nodes is not None

    def fault(self, world: World, pod: Pod) -> str:
        selector = pod.shape.nodes
        names = None if selector is None else selector.names
        return "pod affinity terms conflict" if names is not None and not names else ""

    def passes(self, world: World, pod: Pod, rows: Rows) -> Bools:
        assert pod.shape.nodes is not None
        return pod.shape.nodes.matches(world.nodes, rows)
