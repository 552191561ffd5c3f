"""The node must have enough free resources: CPU, memory, storage, pods, devices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.causes import WakeCause
from alcove.scheduler.filters.base import Filter, FilterScope, Refusal
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.resource_amounts import PODS
from alcove.scheduler.scheduler_cache import SchedulerCache


class NodeResourcesFit(Filter):
    name = "NodeResourcesFit"
    scope = FilterScope.USE
    is_curable = True
    cured_by = WakeCause.NODE_ADDED | WakeCause.NODE_GREW | WakeCause.ROOM

    def passes(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Bools:
        nodes, demand = cache.nodes, cache.demand(pod.shape)
        if len(demand.amounts) < len(pod.shape.requests.amounts):
            return np.zeros(len(nodes.is_alive[rows]), dtype=np.bool_)
        allocatable, requested = nodes.allocatable, nodes.requested
        (row, amount), *others = demand.amounts
        fits: Bools = allocatable[row][rows] - requested[row][rows] >= amount
        for row, amount in others:
            fits &= allocatable[row][rows] - requested[row][rows] >= amount
        return fits

    def refusals(self, cache: SchedulerCache, pod: SchedulerPod) -> Iterator[Refusal]:
        """One refusal per missing resource. If the node's total of one is too small, preemption does not
        help."""
        nodes = cache.nodes
        requested_amounts = pod.shape.requests.amounts
        hopeless = np.zeros(nodes.size, dtype=np.bool_)
        for name, amount in requested_amounts.items():
            if name != PODS:
                row = nodes.rows.get(name)
                hopeless |= True if row is None else nodes.allocatable[row] < amount
        for name, amount in requested_amounts.items():
            lacking = self._lacking(cache, name, amount)
            reason = "Too many pods" if name == PODS else f"Insufficient {name}"
            yield Refusal(reason, lacking & ~hopeless, True)
            yield Refusal(reason, lacking & hopeless, False)

    @staticmethod
    def _lacking(cache: SchedulerCache, name: str, amount: int) -> Bools:
        nodes = cache.nodes
        row = nodes.rows.get(name)
        if row is None:
            return np.ones(nodes.size, dtype=np.bool_)
        lacking: Bools = nodes.allocatable[row] - nodes.requested[row] < amount
        return lacking
