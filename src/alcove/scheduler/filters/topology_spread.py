"""Required spread constraints: no domain may have more than maxSkew pods above the smallest one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from alcove.scheduler import domains
from alcove.scheduler.affinity_index import Links
from alcove.scheduler.arrays import EVERY, Bools, Ids, Ints, Rows
from alcove.scheduler.causes import WakeCause
from alcove.scheduler.filters.base import Filter, FilterScope, Refusal
from alcove.scheduler.groups import PodSelection, picks
from alcove.scheduler.label_columns import LabelColumn
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.podterms import SpreadConstraint
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.taints import forbids

UNEVEN = "node(s) didn't match pod topology spread constraints"
UNLABELED = f"{UNEVEN} (missing required label)"


class PodTopologySpread(Filter):
    name = "PodTopologySpread"
    scope = FilterScope.WORLD
    is_curable = True
    cured_by = (
        WakeCause.NODE_ADDED
        | WakeCause.NODE_RELABELED
        | WakeCause.NODE_RETAINTED
        | WakeCause.NODE_REMOVED
        | WakeCause.POD_GONE
        | WakeCause.POD_PLACED
        | WakeCause.POD_RELABELED
    )

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        return bool(pod.shape.spread_hard)

    def passes(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Bools:
        passing = np.ones(cache.nodes.size, dtype=np.bool_)
        for _, is_even in _evaluations(cache, pod):
            passing &= is_even
        chosen: Bools = passing[rows]
        return chosen

    def refusals(self, cache: SchedulerCache, pod: SchedulerPod) -> Iterator[Refusal]:
        """The reason is the first constraint that a node does not meet."""
        remaining = np.ones(cache.nodes.size, dtype=np.bool_)
        unlabeled, uneven = np.zeros_like(remaining), np.zeros_like(remaining)
        for has_label, is_even in _evaluations(cache, pod):
            unlabeled |= remaining & ~has_label
            uneven |= remaining & has_label & ~is_even
            remaining &= is_even
        yield Refusal(UNLABELED, unlabeled, False)
        yield Refusal(UNEVEN, uneven, True)


def _evaluations(cache: SchedulerCache, pod: SchedulerPod) -> Iterator[tuple[Bools, Bools]]:
    """For each constraint: which nodes have its label, and where the pod would satisfy it."""
    constraints, links = pod.shape.spread_hard, pod.shape.links
    assert isinstance(links, Links)
    columns = [cache.nodes.labels.get(each.topology_key) for each in constraints]
    counted = eligible(cache, columns, True)
    for spread, selection, column in zip(constraints, links.spread_hard, columns, strict=True):
        if column is None:
            no_nodes = np.zeros(cache.nodes.size, dtype=np.bool_)
            yield no_nodes, no_nodes
            continue
        within = heeding(cache, pod, spread, counted)
        yield column.ids != 0, _even(cache, pod, spread, selection, column, within)


def _even(
    cache: SchedulerCache,
    pod: SchedulerPod,
    spread: SpreadConstraint,
    selection: PodSelection,
    column: LabelColumn,
    within: Bools | None,
) -> Bools:
    """Nodes on which the pod would satisfy the constraint."""
    ids: Ids = column.ids if within is None else np.where(within, column.ids, 0)
    counts = domains.sums(ids, column.size, matching(cache, spread, selection))
    has_nodes = np.bincount(ids, minlength=column.size)[1:] > 0
    in_use = counts[1:][has_nodes]
    is_enough = len(in_use) >= max(spread.domains_least, 1)
    self_match = int(picks(spread.picked, pod.group, cache.affinity_index(pod.tenant).namespaces))
    even: Bools = counts + self_match - (int(in_use.min()) if is_enough else 0) <= spread.skew_max
    even[0] = False
    passing: Bools = even[column.ids]
    if selection.nominated and not spread.picked.is_everything:
        for slot, coming in selection.nominated.items():
            if ids[slot]:
                current = int(counts[ids[slot]])
                minimum = _minimum_with(in_use, current, coming) if is_enough else 0
                passing[slot] &= current + coming + self_match - minimum <= spread.skew_max
    return passing


def _minimum_with(in_use: Ints, current: int, coming: int) -> int:
    """The minimum over all domains, after `coming` nominated pods are added to a domain with `here` pods."""
    if len(in_use) == 1:
        return current + coming
    first, second = np.partition(in_use, 1)[:2]
    return min(int(second if current == first else first), current + coming)


def eligible(cache: SchedulerCache, columns: list[LabelColumn | None], needs_all: bool) -> Bools | None:
    """Nodes that have all the labels. None if there is only one label, which is checked separately."""
    if not needs_all or len(columns) < 2:
        return None
    having = cache.nodes.is_alive.copy()
    for column in columns:
        having &= (column.ids != 0) if column is not None else False
    return having


def heeding(
    cache: SchedulerCache, pod: SchedulerPod, spread: SpreadConstraint, among: Bools | None
) -> Bools | None:
    """The nodes among `among` (None for all) that the constraint counts, by nodeAffinityPolicy and
    nodeTaintsPolicy. None for all."""
    shape = pod.shape
    if spread.heeds_node_affinity and shape.nodes is not None:
        allowed = shape.nodes.matches(cache.nodes, EVERY)
        among = allowed if among is None else among & allowed
    if spread.heeds_taints:
        tolerated = cache.nodes.taints.test(lambda taints: not forbids(taints, shape.tolerations), EVERY)
        among = tolerated if among is None else among & tolerated
    return among


def matching(cache: SchedulerCache, spread: SpreadConstraint, selection: PodSelection) -> Ints:
    """Selected pods on each node that are not being deleted. A selector that matches everything counts no
    pods, as in kube-scheduler."""
    size = cache.nodes.size
    if spread.picked.is_everything:
        return np.zeros(size, dtype=np.int64)
    staying = selection.placed.vector(size)
    if selection.leaving:
        staying = staying - selection.leaving.vector(size)
    return staying
