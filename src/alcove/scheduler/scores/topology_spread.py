"""Preferred spread constraints: domains with fewer matching pods score higher."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from alcove.scheduler import domains
from alcove.scheduler.affinity_index import Links
from alcove.scheduler.arrays import Bools, Ints, Rows
from alcove.scheduler.filters.base import FilterScope
from alcove.scheduler.filters.topology_spread import heeding, matching
from alcove.scheduler.groups import PodSelection
from alcove.scheduler.label_columns import LabelColumn
from alcove.scheduler.nodes import HOSTNAME
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.podterms import SpreadConstraint
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.scores.base import BEST, Score

Amounts = NDArray[np.float64]


class PodTopologySpreadScore(Score):
    """All work is done in `normalized`: raw scores depend on which nodes are feasible."""

    name = "PodTopologySpread"
    scope = FilterScope.WORLD

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        return bool(pod.shape.spread_soft)

    def raw(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Ints:
        return np.zeros(len(cache.nodes.is_alive[rows]), dtype=np.int64)

    def normalized(self, cache: SchedulerCache, pod: SchedulerPod, raw: Ints, feasible: Bools) -> Ints:
        links = pod.shape.links
        assert isinstance(links, Links)
        columns = [cache.nodes.labels.get(each.topology_key) for each in pod.shape.spread_soft]
        scored, counted = _labeled(cache, pod, columns, feasible)
        crowd = np.zeros(cache.nodes.size, dtype=np.float64)
        for spread, selection, column in zip(pod.shape.spread_soft, links.spread_soft, columns, strict=True):
            if column is not None:
                crowd += _crowd(cache, pod, spread, selection, column, scored, counted)
        return _emptiest_best(np.rint(crowd).astype(np.int64), scored)


def _labeled(
    cache: SchedulerCache, pod: SchedulerPod, columns: list[LabelColumn | None], feasible: Bools
) -> tuple[Bools, Bools | None]:
    """Feasible nodes that are scored, and nodes whose pods count (None for all). With constraints in the
    pod's spec, both need all the labels."""
    if pod.shape.is_spread_by_default:
        return feasible, None
    having = cache.nodes.is_alive.copy()
    for column in columns:
        having &= (column.ids != 0) if column is not None else False
    return feasible & having, having


def _crowd(
    cache: SchedulerCache,
    pod: SchedulerPod,
    spread: SpreadConstraint,
    selection: PodSelection,
    column: LabelColumn,
    scored: Bools,
    counted: Bools | None,
) -> Amounts:
    """Weighted number of matching pods in each node's domain: few large domains count as much as many small
    ones."""
    picked = matching(cache, spread, selection)
    if spread.topology_key == HOSTNAME:
        weight = math.log(int(scored.sum()) + 2)
        crowd = picked * weight + (spread.skew_max - 1)
        return np.where(column.ids != 0, crowd, 0.0)
    domain_ids = np.unique(column.ids[scored]) if column.size > 0 else column.ids[:0]
    weight = math.log(len(domain_ids) + 2)
    within = heeding(cache, pod, spread, counted)
    ids = column.ids if within is None else np.where(within, column.ids, 0)
    domain_counts = domains.sums(ids, column.size, picked)
    crowd = domain_counts[column.ids] * weight + (spread.skew_max - 1)
    return np.where(column.ids != 0, crowd, 0.0)


def _emptiest_best(crowd: Ints, scored: Bools) -> Ints:
    """Nodes that are not scored get 0."""
    chosen = crowd[scored]
    if len(chosen) == 0:
        return np.zeros_like(crowd)
    maximum, minimum = int(chosen.max()), int(chosen.min())
    if maximum <= 0:
        return np.where(scored, BEST, 0).astype(np.int64)
    return np.where(scored, BEST * (maximum + minimum - crowd) // maximum, 0)
