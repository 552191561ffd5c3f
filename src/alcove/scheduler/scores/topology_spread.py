"""Spread constraints that are wishes: domains with fewer of the picked pods are better."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from alcove.scheduler import domains
from alcove.scheduler.arrays import Bools, Ints, Rows
from alcove.scheduler.book import Links
from alcove.scheduler.columns import Column
from alcove.scheduler.filters.base import Scope
from alcove.scheduler.filters.topology_spread import heeding, matching
from alcove.scheduler.nodes import HOSTNAME
from alcove.scheduler.pods import Pod
from alcove.scheduler.podterms import Spread
from alcove.scheduler.scores.base import BEST, Score
from alcove.scheduler.selections import Selection
from alcove.scheduler.world import World

Amounts = NDArray[np.float64]


class SpreadWish(Score):
    """Raw scores need to know which nodes are feasible, so all is done when normalizing."""

    name = "PodTopologySpread"
    scope = Scope.WORLD

    def applies(self, world: World, pod: Pod) -> bool:
        return bool(pod.shape.spread_soft)

    def raw(self, world: World, pod: Pod, rows: Rows) -> Ints:
        return np.zeros(len(world.nodes.is_alive[rows]), dtype=np.int64)

    def normalized(self, world: World, pod: Pod, raw: Ints, feasible: Bools) -> Ints:
        links = pod.shape.links
        assert isinstance(links, Links)
        columns = [world.nodes.labels.get(each.topology_key) for each in pod.shape.spread_soft]
        scored, counted = _labeled(world, pod, columns, feasible)
        crowd = np.zeros(world.nodes.size, dtype=np.float64)
        for spread, selection, column in zip(pod.shape.spread_soft, links.spread_soft, columns, strict=True):
            if column is not None:
                crowd += _crowd(world, pod, spread, selection, column, scored, counted)
        return _emptiest_best(np.rint(crowd).astype(np.int64), scored)


def _labeled(
    world: World, pod: Pod, columns: list[Column | None], feasible: Bools
) -> tuple[Bools, Bools | None]:
    """Feasible nodes that are scored, and nodes whose pods count (None: all). Where the pod says the
    constraints itself, both need all the labels."""
    if pod.shape.is_spread_by_default:
        return feasible, None
    having = world.nodes.is_alive.copy()
    for column in columns:
        having &= (column.ids != 0) if column is not None else False
    return feasible & having, having


def _crowd(
    world: World,
    pod: Pod,
    spread: Spread,
    selection: Selection,
    column: Column,
    scored: Bools,
    counted: Bools | None,
) -> Amounts:
    """How many picked pods are in each node's domain; weighed, so that few large domains count as
    much as many small ones."""
    picked = matching(world, spread, selection)
    if spread.topology_key == HOSTNAME:
        weight = math.log(int(scored.sum()) + 2)
        crowd = picked * weight + (spread.skew_max - 1)
        return np.where(column.ids != 0, crowd, 0.0)
    here = np.unique(column.ids[scored]) if column.size > 0 else column.ids[:0]
    weight = math.log(len(here) + 2)
    within = heeding(world, pod, spread, counted)
    ids = column.ids if within is None else np.where(within, column.ids, 0)
    around = domains.sums(ids, column.size, picked)
    crowd = around[column.ids] * weight + (spread.skew_max - 1)
    return np.where(column.ids != 0, crowd, 0.0)


def _emptiest_best(crowd: Ints, scored: Bools) -> Ints:
    """Nodes that are not scored get 0."""
    chosen = crowd[scored]
    if len(chosen) == 0:
        return np.zeros_like(crowd)
    most, least = int(chosen.max()), int(chosen.min())
    if most <= 0:
        return np.where(scored, BEST, 0).astype(np.int64)
    return np.where(scored, BEST * (most + least - crowd) // most, 0)
