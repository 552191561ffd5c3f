"""Nodes near pods that this one wishes near, or that wish it near; far from those it wishes far."""

from __future__ import annotations

import numpy as np

from alcove.scheduler import domains
from alcove.scheduler.arrays import Bools, Ints, Rows
from alcove.scheduler.book import Links
from alcove.scheduler.filters.base import Scope
from alcove.scheduler.pods import Pod
from alcove.scheduler.rules import Rule
from alcove.scheduler.scores.base import BEST, Score
from alcove.scheduler.world import World


class AffinityWish(Score):
    name = "InterPodAffinity"
    scope = Scope.WORLD

    def applies(self, world: World, pod: Pod) -> bool:
        return bool(pod.shape.affinity.wishes or _attracting(world, pod))

    def raw(self, world: World, pod: Pod, rows: Rows) -> Ints:
        nodes, links = world.nodes, pod.shape.links
        assert isinstance(links, Links)
        total = np.zeros(nodes.size, dtype=np.int64)
        for wish, selection in zip(pod.shape.affinity.wishes, links.wishes, strict=True):
            column = nodes.labels.get(wish.term.topology_key)
            total += wish.weight * domains.by_node(column, selection.placed.vector(nodes.size))
        for rule in _attracting(world, pod):
            column = nodes.labels.get(rule.key.term.topology_key)
            total += rule.key.weight * domains.by_node(column, rule.owners.vector(nodes.size))
        chosen: Ints = total[rows]
        return chosen

    def normalized(self, world: World, pod: Pod, raw: Ints, feasible: Bools) -> Ints:
        chosen = raw[feasible]
        if len(chosen) == 0 or chosen.max() == chosen.min():
            return np.zeros_like(raw)
        least, most = int(chosen.min()), int(chosen.max())
        shares: Ints = (BEST * ((raw - least) / (most - least))).astype(np.int64)
        return shares


def _attracting(world: World, pod: Pod) -> list[Rule]:
    """Rules of placed pods that attract this one (or repel it, by a weight below zero)."""
    return [rule for rule in world.book(pod.tenant).rules_about(pod.group) if rule.key.weight != 0]
