"""Nodes that the pod prefers: the sum of the weights of matching terms."""

import numpy as np

from alcove.scheduler.arrays import Bools, Ints, Rows
from alcove.scheduler.filters.base import Scope
from alcove.scheduler.pods import Pod
from alcove.scheduler.scores.base import Score, by_share
from alcove.scheduler.world import World


class NodePreference(Score):
    name = "NodeAffinity"
    scope = Scope.NODE

    def applies(self, world: World, pod: Pod) -> bool:
        return bool(pod.shape.preferred_nodes)

    def raw(self, world: World, pod: Pod, rows: Rows) -> Ints:
        nodes = world.nodes
        total = np.zeros(len(nodes.is_alive[rows]), dtype=np.int64)
        for weight, term in pod.shape.preferred_nodes:
            # An empty preference matches no node, as an empty requirement does.
            total += term.matches(nodes, rows) * weight
        return total

    def normalized(self, world: World, pod: Pod, raw: Ints, feasible: Bools) -> Ints:
        return by_share(raw, feasible)
