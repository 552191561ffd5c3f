"""Trials: would the pod fit on a node without some of its pods? There are two implementations.

If only resources matter, they are added up. Otherwise the victims are removed from the cache, the filters are
run, and the victims are put back.
"""

from __future__ import annotations

from typing import Protocol

from alcove.scheduler.evaluator import NodeEvaluator
from alcove.scheduler.filters.base import FilterScope
from alcove.scheduler.filters.node_resources import NodeResourcesFit
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.resource_amounts import PODS
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.shapes import PodShape


class Trial(Protocol):
    def remove(self, victim: SchedulerPod) -> None: ...

    def put_back(self, victim: SchedulerPod) -> None: ...

    def fits(self) -> bool: ...

    def reasons(self) -> list[str]:
        """Why it does not fit."""
        ...


class ResourceTrial:
    def __init__(self, cache: SchedulerCache, pod: SchedulerPod, slot: int) -> None:
        nodes = cache.nodes
        self._names = tuple(pod.shape.requests.amounts)
        self._requested = tuple(pod.shape.requests.amounts.values())
        rows = [nodes.rows.get(name) for name in self._names]
        self._free = [
            0 if row is None else int(nodes.allocatable[row, slot] - nodes.requested[row, slot])
            for row in rows
        ]

    def remove(self, victim: SchedulerPod) -> None:
        released, free = victim.shape.requests.amounts, self._free
        for index, name in enumerate(self._names):
            if name in released:
                free[index] += released[name]

    def put_back(self, victim: SchedulerPod) -> None:
        requests, free = victim.shape.requests.amounts, self._free
        for index, name in enumerate(self._names):
            if name in requests:
                free[index] -= requests[name]

    def fits(self) -> bool:
        for free, requested in zip(self._free, self._requested, strict=True):  # noqa: SIM110 - half the time of all()
            if free < requested:
                return False
        return True

    def reasons(self) -> list[str]:
        lacking = [
            name
            for name, free, requested in zip(self._names, self._free, self._requested, strict=True)
            if free < requested
        ]
        return ["Too many pods" if name == PODS else f"Insufficient {name}" for name in lacking]


class WorldTrial:
    """Runs the filters on the cache. The caller must put every victim back."""

    def __init__(self, cache: SchedulerCache, evaluator: NodeEvaluator, pod: SchedulerPod, slot: int) -> None:
        self._cache = cache
        self._evaluator = evaluator
        self._pod = pod
        self._slot = slot
        self._node = cache.nodes.name(slot)
        self.questions = 0
        """Number of filter runs, which determine the cost."""

    def remove(self, victim: SchedulerPod) -> None:
        self._cache.lift(victim)

    def put_back(self, victim: SchedulerPod) -> None:
        self._cache.place(victim, self._node)

    def fits(self) -> bool:
        self.questions += 1
        return self._evaluator.fits(self._pod, self._slot)

    def reasons(self) -> list[str]:
        return self._evaluator.reasons_at(self._pod, self._slot)


def terms_of(shape: PodShape) -> int:
    """Number of the shape's required terms about other pods."""
    return len(shape.affinity.near) + len(shape.affinity.far) + len(shape.spread_hard)


def only_resources_matter(cache: SchedulerCache, evaluator: NodeEvaluator, pod: SchedulerPod) -> bool:
    """Whether resources are the only filter depending on other pods that can refuse the pod."""
    return all(
        each.scope is FilterScope.NODE or isinstance(each, NodeResourcesFit) or not each.applies(cache, pod)
        for each in evaluator.profile(pod).filters
    )
