"""Preferred pod affinity and anti-affinity, of this pod and of existing pods."""

from __future__ import annotations

import numpy as np

from alcove.scheduler import domains
from alcove.scheduler.affinity_index import Links
from alcove.scheduler.arrays import Bools, Ints, Rows
from alcove.scheduler.filters.base import FilterScope
from alcove.scheduler.groups import AffinityRule
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.scores.base import BEST, Score


class InterPodAffinityScore(Score):
    name = "InterPodAffinity"
    scope = FilterScope.WORLD

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        return bool(pod.shape.affinity.preferred or _attracting(cache, pod))

    def raw(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Ints:
        nodes, links = cache.nodes, pod.shape.links
        assert isinstance(links, Links)
        total = np.zeros(nodes.size, dtype=np.int64)
        for preference, selection in zip(pod.shape.affinity.preferred, links.preferred, strict=True):
            column = nodes.labels.get(preference.term.topology_key)
            total += preference.weight * domains.by_node(column, selection.placed.vector(nodes.size))
        for rule in _attracting(cache, pod):
            column = nodes.labels.get(rule.key.term.topology_key)
            total += rule.key.weight * domains.by_node(column, rule.owners.vector(nodes.size))
        chosen: Ints = total[rows]
        return chosen

    def normalized(self, cache: SchedulerCache, pod: SchedulerPod, raw: Ints, feasible: Bools) -> Ints:
        chosen = raw[feasible]
        if len(chosen) == 0 or chosen.max() == chosen.min():
            return np.zeros_like(raw)
        minimum, maximum = int(chosen.min()), int(chosen.max())
        shares: Ints = (BEST * ((raw - minimum) / (maximum - minimum))).astype(np.int64)
        return shares


def _attracting(cache: SchedulerCache, pod: SchedulerPod) -> list[AffinityRule]:
    """Rules of placed pods that attract this pod (or repel it, with a negative weight)."""
    return [rule for rule in cache.affinity_index(pod.tenant).rules_about(pod.group) if rule.key.weight != 0]
