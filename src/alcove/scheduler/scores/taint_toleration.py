"""Nodes that would rather not have the pod (PreferNoSchedule taints) are worse."""

from alcove.scheduler.arrays import Bools, Ints, Rows
from alcove.scheduler.filters.base import Scope
from alcove.scheduler.pods import Pod
from alcove.scheduler.scores.base import Score, by_absence
from alcove.scheduler.taints import disliked
from alcove.scheduler.world import World


class TaintPreference(Score):
    name = "TaintToleration"
    scope = Scope.NODE

    def applies(self, world: World, pod: Pod) -> bool:
        return world.nodes.taints.has_preferences

    def raw(self, world: World, pod: Pod, rows: Rows) -> Ints:
        tolerations = pod.shape.tolerations
        return world.nodes.taints.count(lambda taints: disliked(taints, tolerations), rows)

    def normalized(self, world: World, pod: Pod, raw: Ints, feasible: Bools) -> Ints:
        return by_absence(raw, feasible)
