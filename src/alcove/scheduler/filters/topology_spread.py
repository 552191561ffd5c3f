"""Spread constraints that must hold: no domain may get ahead of the emptiest one by more than the skew."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from alcove.scheduler import domains
from alcove.scheduler.arrays import EVERY, Bools, Ids, Ints, Rows
from alcove.scheduler.book import Links
from alcove.scheduler.causes import Cause
from alcove.scheduler.columns import Column
from alcove.scheduler.filters.base import Filter, Refusal, Scope
from alcove.scheduler.pods import Pod
from alcove.scheduler.podterms import Spread
from alcove.scheduler.selections import Selection, picks
from alcove.scheduler.taints import forbids
from alcove.scheduler.world import World

UNEVEN = "node(s) didn't match pod topology spread constraints"
UNLABELED = f"{UNEVEN} (missing required label)"


class PodTopologySpread(Filter):
    name = "PodTopologySpread"
    scope = Scope.WORLD
    is_curable = True
    cured_by = (
        Cause.NODE_ADDED
        | Cause.NODE_RELABELED
        | Cause.NODE_RETAINTED
        | Cause.NODE_REMOVED
        | Cause.POD_GONE
        | Cause.POD_PLACED
        | Cause.POD_RELABELED
    )

    def applies(self, world: World, pod: Pod) -> bool:
        return bool(pod.shape.spread_hard)

    def passes(self, world: World, pod: Pod, rows: Rows) -> Bools:
        passing = np.ones(world.nodes.size, dtype=np.bool_)
        for _, is_even in _judgements(world, pod):
            passing &= is_even
        chosen: Bools = passing[rows]
        return chosen

    def refusals(self, world: World, pod: Pod) -> Iterator[Refusal]:
        """The first constraint that a node does not meet is the reason."""
        left = np.ones(world.nodes.size, dtype=np.bool_)
        unlabeled, uneven = np.zeros_like(left), np.zeros_like(left)
        for has_label, is_even in _judgements(world, pod):
            unlabeled |= left & ~has_label
            uneven |= left & has_label & ~is_even
            left &= is_even
        yield Refusal(UNLABELED, unlabeled, False)
        yield Refusal(UNEVEN, uneven, True)


def _judgements(world: World, pod: Pod) -> Iterator[tuple[Bools, Bools]]:
    """For each constraint: which nodes have its label, and where the pod would keep evenness."""
    constraints, links = pod.shape.spread_hard, pod.shape.links
    assert isinstance(links, Links)
    columns = [world.nodes.labels.get(each.topology_key) for each in constraints]
    counted = eligible(world, columns, True)
    for spread, selection, column in zip(constraints, links.spread_hard, columns, strict=True):
        if column is None:
            nobody = np.zeros(world.nodes.size, dtype=np.bool_)
            yield nobody, nobody
            continue
        within = heeding(world, pod, spread, counted)
        yield column.ids != 0, _even(world, pod, spread, selection, column, within)


def _even(
    world: World, pod: Pod, spread: Spread, selection: Selection, column: Column, within: Bools | None
) -> Bools:
    """Nodes in whose domain one more of the pod keeps evenness."""
    ids: Ids = column.ids if within is None else np.where(within, column.ids, 0)
    counts = domains.sums(ids, column.size, matching(world, spread, selection))
    there = np.bincount(ids, minlength=column.size)[1:] > 0
    in_use = counts[1:][there]
    is_enough = len(in_use) >= max(spread.domains_least, 1)
    oneself = int(picks(spread.picked, pod.group, world.book(pod.tenant).namespaces))
    even: Bools = counts + oneself - (int(in_use.min()) if is_enough else 0) <= spread.skew_max
    even[0] = False
    passing: Bools = even[column.ids]
    if selection.nominated and not spread.picked.is_everything:
        for slot, coming in selection.nominated.items():
            if ids[slot]:
                here = int(counts[ids[slot]])
                least = _least_with(in_use, here, coming) if is_enough else 0
                passing[slot] &= here + coming + oneself - least <= spread.skew_max
    return passing


def _least_with(in_use: Ints, here: int, coming: int) -> int:
    """The least in any domain, once those that room is being made for are in a domain that has so many."""
    if len(in_use) == 1:
        return here + coming
    first, second = np.partition(in_use, 1)[:2]
    return min(int(second if here == first else first), here + coming)


def eligible(world: World, columns: list[Column | None], needs_all: bool) -> Bools | None:
    """Nodes that have all the labels; None: every node that matters has, there being one label."""
    if not needs_all or len(columns) < 2:
        return None
    having = world.nodes.is_alive.copy()
    for column in columns:
        having &= (column.ids != 0) if column is not None else False
    return having


def heeding(world: World, pod: Pod, spread: Spread, among: Bools | None) -> Bools | None:
    """Of these nodes (None: of all), those that the constraint counts: by default the ones that the
    pod's node affinity allows."""
    shape = pod.shape
    if spread.heeds_node_affinity and shape.nodes is not None:
        allowed = shape.nodes.matches(world.nodes, EVERY)
        among = allowed if among is None else among & allowed
    if spread.heeds_taints:
        tolerated = world.nodes.taints.test(lambda taints: not forbids(taints, shape.tolerations), EVERY)
        among = tolerated if among is None else among & tolerated
    return among


def matching(world: World, spread: Spread, selection: Selection) -> Ints:
    """Picked pods on each node that are not about to leave. A selector that picks everything counts
    nobody: so it is in Kubernetes."""
    size = world.nodes.size
    if spread.picked.is_everything:
        return np.zeros(size, dtype=np.int64)
    staying = selection.placed.vector(size)
    if selection.leaving:
        staying = staying - selection.leaving.vector(size)
    return staying
