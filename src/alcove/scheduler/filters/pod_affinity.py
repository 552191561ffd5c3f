"""Required pod affinity and anti-affinity, and required anti-affinity of existing pods."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from alcove.scheduler import domains
from alcove.scheduler.affinity_index import Links
from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.causes import WakeCause
from alcove.scheduler.filters.base import Filter, FilterScope, Refusal
from alcove.scheduler.groups import AffinityRule, picks
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache

NOT_NEAR = "node(s) didn't match pod affinity rules"
NOT_FAR = "node(s) didn't match pod anti-affinity rules"
KEPT_AWAY = "node(s) didn't satisfy existing pods anti-affinity rules"


class InterPodAffinity(Filter):
    name = "InterPodAffinity"
    scope = FilterScope.WORLD
    is_curable = True
    cured_by = (
        WakeCause.NODE_ADDED
        | WakeCause.NODE_RELABELED
        | WakeCause.POD_GONE
        | WakeCause.POD_PLACED
        | WakeCause.POD_RELABELED
    )

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        affinity = pod.shape.affinity
        return bool(affinity.near or affinity.far or _repelling(cache, pod))

    def passes(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Bools:
        passing = np.ones(cache.nodes.size, dtype=np.bool_)
        if pod.shape.affinity.near:
            passing &= _near(cache, pod)
        if pod.shape.affinity.far:
            passing &= ~_close(cache, pod)
        for rule in _repelling(cache, pod):
            passing &= ~_around(cache, rule)
        chosen: Bools = passing[rows]
        return chosen

    def refusals(self, cache: SchedulerCache, pod: SchedulerPod) -> Iterator[Refusal]:
        """Each node has the first reason that applies, in this order."""
        no_nodes = np.zeros(cache.nodes.size, dtype=np.bool_)
        not_near = ~_near(cache, pod) if pod.shape.affinity.near else no_nodes
        close = _close(cache, pod) & ~not_near
        repelled = no_nodes.copy()
        for rule in _repelling(cache, pod):
            repelled |= _around(cache, rule)
        yield Refusal(NOT_NEAR, not_near, False)
        yield Refusal(NOT_FAR, close, True)
        yield Refusal(KEPT_AWAY, repelled & ~not_near & ~close, True)


def _repelling(cache: SchedulerCache, pod: SchedulerPod) -> list[AffinityRule]:
    return [rule for rule in cache.affinity_index(pod.tenant).rules_about(pod.group) if rule.key.weight == 0]


def _near(cache: SchedulerCache, pod: SchedulerPod) -> Bools:
    """Nodes in whose domains, for every term, is a pod that matches all terms. The first pod of a group with
    affinity to itself may run anywhere."""
    links = pod.shape.links
    assert isinstance(links, Links)
    (selection,) = links.near
    counts = selection.placed.vector(cache.nodes.size)
    labeled, near = cache.nodes.is_alive.copy(), cache.nodes.is_alive.copy()
    is_any = False
    for term in pod.shape.affinity.near:
        column = cache.nodes.labels.get(term.topology_key)
        if column is None:
            return np.zeros_like(near)
        around = domains.by_node(column, counts)
        labeled &= column.ids != 0
        near &= around > 0
        is_any = is_any or bool(around.any())
    if not is_any and picks(selection.picked, pod.group, cache.affinity_index(pod.tenant).namespaces):
        return labeled
    return near & labeled


def _close(cache: SchedulerCache, pod: SchedulerPod) -> Bools:
    """Nodes in whose domains is a pod that matches an anti-affinity term."""
    links = pod.shape.links
    assert isinstance(links, Links)
    size = cache.nodes.size
    close = np.zeros(size, dtype=np.bool_)
    for term, selection in zip(pod.shape.affinity.far, links.far, strict=True):
        counts = selection.placed.vector(size)
        if selection.nominated:
            counts = counts + selection.nominated.vector(size)
        close |= domains.by_node(cache.nodes.labels.get(term.topology_key), counts) > 0
    return close


def _around(cache: SchedulerCache, rule: AffinityRule) -> Bools:
    column = cache.nodes.labels.get(rule.key.term.topology_key)
    owners = rule.owners.vector(cache.nodes.size)
    if rule.coming:
        owners = owners + rule.coming.vector(cache.nodes.size)
    around: Bools = domains.by_node(column, owners) > 0
    return around
