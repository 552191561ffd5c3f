"""Evaluates a pod against all nodes: which are feasible, which is best, and why the others are not."""

from __future__ import annotations

from collections import Counter

import numpy as np
from msgspec import Struct

from alcove.scheduler.arrays import EVERY, Bools, Ints, rows_of
from alcove.scheduler.causes import WakeCause
from alcove.scheduler.filters.base import Filter, FilterScope
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.profiles import Profiles, SchedulerProfile
from alcove.scheduler.result_cache import INFEASIBLE, ResultCache, ShapeResult
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.scores.base import Score

NO_SLOT = -1


class SchedulingExplanation(Struct):
    """Why a pod does not fit on any node."""

    nodes: int
    """Number of nodes."""
    fault: str
    """An error of the pod itself, independent of nodes. Empty if `reasons` apply."""
    reasons: Counter[str]
    curable: Bools
    """Nodes on which preemption may help."""
    cured_by: WakeCause

    @property
    def text(self) -> str:
        """As Kubernetes words it: "0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu."."""
        if self.nodes == 0:
            return "no nodes available to schedule pods"
        message = self.fault or ", ".join(
            sorted(f"{count} {reason}" for reason, count in self.reasons.items())
        )
        return f"0/{self.nodes} nodes are available: {message}."


class NodeEvaluator:
    def __init__(self, cache: SchedulerCache, profiles: Profiles) -> None:
        self._cache = cache
        self._profiles = profiles
        self.results = ResultCache(cache)
        self._cursor = 0

    def profile(self, pod: SchedulerPod) -> SchedulerProfile:
        return self._profiles[pod.shape.profile]

    def fault(self, pod: SchedulerPod) -> tuple[str, WakeCause]:
        """An error of the pod itself, independent of nodes, and the events that may fix it."""
        if pod.shape.fault:
            return pod.shape.fault, WakeCause.NOTHING
        for each in self.profile(pod).filters:
            if each.applies(self._cache, pod) and (message := each.fault(self._cache, pod)):
                return message, each.cured_by
        return "", WakeCause.NOTHING

    def choose(self, pod: SchedulerPod) -> int:
        """The slot of the best node, or NO_SLOT. Ties are broken round-robin."""
        ranked = self.rank(pod)
        if len(ranked) == 0:
            return NO_SLOT
        cursor = self._cursor if self._cursor < len(ranked) else 0
        ahead = cursor + int(ranked[cursor:].argmax())
        behind = int(ranked.argmax())
        slot = ahead if ranked[ahead] == ranked[behind] else behind
        if ranked[slot] == INFEASIBLE:
            return NO_SLOT
        self._cursor = slot + 1
        return slot

    def rank(self, pod: SchedulerPod) -> Ints:
        """For each slot the weighted sum of its scores; INFEASIBLE where the pod does not fit."""
        profile = self.profile(pod)
        result = self.results.get(pod, profile)
        filters = self._global_filters(profile, pod)
        scores = [
            (score, weight)
            for score, weight in profile.scores
            if score.scope is FilterScope.WORLD and score.applies(self._cache, pod)
        ]
        if not (filters or scores or result.compared):
            return result.ranked
        feasible = result.feasible
        for each in filters:
            feasible &= each.passes(self._cache, pod, EVERY)
        return self._compose(pod, result, feasible, scores)

    def _global_filters(self, profile: SchedulerProfile, pod: SchedulerPod) -> list[Filter]:
        return [
            each
            for each in profile.filters
            if each.scope is FilterScope.WORLD and each.applies(self._cache, pod)
        ]

    def _compose(
        self, pod: SchedulerPod, result: ShapeResult, feasible: Bools, scores: list[tuple[Score, int]]
    ) -> Ints:
        total = result.value.copy()
        for score, weight, raw in result.compared:
            total += weight * score.normalized(self._cache, pod, raw, feasible)
        for score, weight in scores:
            raw = score.raw(self._cache, pod, EVERY)
            total += weight * score.normalized(self._cache, pod, raw, feasible)
        total[~feasible] = INFEASIBLE
        return total

    def fits(self, pod: SchedulerPod, slot: int) -> bool:
        """Whether the pod fits on this node now."""
        rows = rows_of([slot])
        if not self._cache.nodes.is_alive[slot]:
            return False
        return all(
            bool(each.passes(self._cache, pod, rows)[0])
            for each in self.profile(pod).filters
            if each.applies(self._cache, pod)
        )

    def reasons_at(self, pod: SchedulerPod, slot: int) -> list[str]:
        """The reasons of the first filter that refuses the pod on this node."""
        rows = rows_of([slot])
        for each in self.profile(pod).filters:
            if each.applies(self._cache, pod) and not each.passes(self._cache, pod, rows)[0]:
                return [one.reason for one in each.refusals(self._cache, pod) if one.nodes[slot]]
        return []

    def explain(self, pod: SchedulerPod) -> SchedulingExplanation:
        nodes = self._cache.nodes
        no_nodes = np.zeros(nodes.size, dtype=np.bool_)
        message, cause = self.fault(pod)
        if message or nodes.count == 0:
            cause |= WakeCause.NOTHING if message else WakeCause.NODE_ADDED
            return SchedulingExplanation(nodes.count, message, Counter(), no_nodes, cause)
        explanation = SchedulingExplanation(nodes.count, "", Counter(), no_nodes, WakeCause.NOTHING)
        remaining = self._exclude_unnamed(pod, explanation)
        for each in self.profile(pod).filters:
            if each.applies(self._cache, pod):
                remaining = self._add_reasons(pod, each, remaining, explanation)
        return explanation

    def _exclude_unnamed(self, pod: SchedulerPod, explanation: SchedulingExplanation) -> Bools:
        """Nodes to explain one by one. If affinity names nodes, all others get one common reason."""
        nodes, selector = self._cache.nodes, pod.shape.nodes
        names = None if selector is None else selector.names
        if names is None:
            return nodes.is_alive.copy()
        named = np.zeros(nodes.size, dtype=np.bool_)
        named[[slot for name in names if (slot := nodes.slot(name)) is not None]] = True
        others = nodes.count - int(named.sum())
        if others:
            explanation.reasons["node(s) didn't satisfy plugin(s) [NodeAffinity]"] += others
            explanation.cured_by |= WakeCause.NODE_ADDED
        return named

    def _add_reasons(
        self, pod: SchedulerPod, each: Filter, remaining: Bools, explanation: SchedulingExplanation
    ) -> Bools:
        passing = each.passes(self._cache, pod, EVERY)
        failing = remaining & ~passing
        if failing.any():
            explanation.cured_by |= each.cured_by
            for refusal in each.refusals(self._cache, pod):
                hit = refusal.nodes & failing
                if count := int(hit.sum()):
                    explanation.reasons[refusal.reason] += count
                    if refusal.is_curable:
                        explanation.curable |= hit
        return remaining & passing
