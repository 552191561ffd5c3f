"""Pods that must be near others, or far from them; and others that keep this one away."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from alcove.scheduler import domains
from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.book import Links
from alcove.scheduler.causes import Cause
from alcove.scheduler.filters.base import Filter, Refusal, Scope
from alcove.scheduler.pods import Pod
from alcove.scheduler.rules import Rule
from alcove.scheduler.selections import picks
from alcove.scheduler.world import World

NOT_NEAR = "node(s) didn't match pod affinity rules"
NOT_FAR = "node(s) didn't match pod anti-affinity rules"
KEPT_AWAY = "node(s) didn't satisfy existing pods anti-affinity rules"


class InterPodAffinity(Filter):
    name = "InterPodAffinity"
    scope = Scope.WORLD
    is_curable = True
    cured_by = (
        Cause.NODE_ADDED | Cause.NODE_RELABELED | Cause.POD_GONE | Cause.POD_PLACED | Cause.POD_RELABELED
    )

    def applies(self, world: World, pod: Pod) -> bool:
        affinity = pod.shape.affinity
        return bool(affinity.near or affinity.far or _repelling(world, pod))

    def passes(self, world: World, pod: Pod, rows: Rows) -> Bools:
        passing = np.ones(world.nodes.size, dtype=np.bool_)
        if pod.shape.affinity.near:
            passing &= _near(world, pod)
        if pod.shape.affinity.far:
            passing &= ~_close(world, pod)
        for rule in _repelling(world, pod):
            passing &= ~_around(world, rule)
        chosen: Bools = passing[rows]
        return chosen

    def refusals(self, world: World, pod: Pod) -> Iterator[Refusal]:
        """In this order, the first that applies to a node."""
        nobody = np.zeros(world.nodes.size, dtype=np.bool_)
        lonely = ~_near(world, pod) if pod.shape.affinity.near else nobody
        close = _close(world, pod) & ~lonely
        repelled = nobody.copy()
        for rule in _repelling(world, pod):
            repelled |= _around(world, rule)
        yield Refusal(NOT_NEAR, lonely, False)
        yield Refusal(NOT_FAR, close, True)
        yield Refusal(KEPT_AWAY, repelled & ~lonely & ~close, True)


def _repelling(world: World, pod: Pod) -> list[Rule]:
    return [rule for rule in world.book(pod.tenant).rules_about(pod.group) if rule.key.weight == 0]


def _near(world: World, pod: Pod) -> Bools:
    """Nodes in whose domains, for every term, there is a pod that all terms pick. Of pods that want
    their like near, the first may go anywhere: there is nobody yet."""
    links = pod.shape.links
    assert isinstance(links, Links)
    (selection,) = links.near
    counts = selection.placed.vector(world.nodes.size)
    labeled, near = world.nodes.is_alive.copy(), world.nodes.is_alive.copy()
    is_anybody = False
    for term in pod.shape.affinity.near:
        column = world.nodes.labels.get(term.topology_key)
        if column is None:
            return np.zeros_like(near)
        around = domains.by_node(column, counts)
        labeled &= column.ids != 0
        near &= around > 0
        is_anybody = is_anybody or bool(around.any())
    if not is_anybody and picks(selection.picked, pod.group, world.book(pod.tenant).namespaces):
        return labeled
    return near & labeled


def _close(world: World, pod: Pod) -> Bools:
    """Nodes in whose domains there is, for some term, a pod it does not want near."""
    links = pod.shape.links
    assert isinstance(links, Links)
    size = world.nodes.size
    close = np.zeros(size, dtype=np.bool_)
    for term, selection in zip(pod.shape.affinity.far, links.far, strict=True):
        counts = selection.placed.vector(size)
        if selection.nominated:
            counts = counts + selection.nominated.vector(size)
        close |= domains.by_node(world.nodes.labels.get(term.topology_key), counts) > 0
    return close


def _around(world: World, rule: Rule) -> Bools:
    column = world.nodes.labels.get(rule.key.term.topology_key)
    owners = rule.owners.vector(world.nodes.size)
    if rule.coming:
        owners = owners + rule.coming.vector(world.nodes.size)
    around: Bools = domains.by_node(column, owners) > 0
    return around
