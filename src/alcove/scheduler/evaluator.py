"""The judge: where a pod can go, where it goes best, and why it cannot go elsewhere."""

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
    """Why no node takes a pod."""

    nodes: int
    """How many there are."""
    fault: str
    """What is wrong with the pod whatever the node; empty: the reasons are the nodes'."""
    reasons: Counter[str]
    curable: Bools
    """Nodes that might take the pod if others left them."""
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
        self.memos = ResultCache(cache)
        self._cursor = 0

    def profile(self, pod: SchedulerPod) -> SchedulerProfile:
        return self._profiles[pod.shape.profile]

    def fault(self, pod: SchedulerPod) -> tuple[str, WakeCause]:
        """What is wrong with the pod whatever the node, and what may mend it."""
        if pod.shape.fault:
            return pod.shape.fault, WakeCause.NOTHING
        for each in self.profile(pod).filters:
            if each.applies(self._cache, pod) and (message := each.fault(self._cache, pod)):
                return message, each.cured_by
        return "", WakeCause.NOTHING

    def choose(self, pod: SchedulerPod) -> int:
        """The slot of the best node, or NO_SLOT. Of equals, the next one after the last chosen: all get their turn."""
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
        """For each slot the weighted sum of its scores; -1 where the pod cannot go."""
        profile = self.profile(pod)
        memo = self.memos.get(pod, profile)
        filters = self._worldly(profile, pod)
        scores = [
            (score, weight)
            for score, weight in profile.scores
            if score.scope is FilterScope.WORLD and score.applies(self._cache, pod)
        ]
        if not (filters or scores or memo.compared):
            return memo.ranked
        feasible = memo.feasible
        for each in filters:
            feasible &= each.passes(self._cache, pod, EVERY)
        return self._compose(pod, memo, feasible, scores)

    def _worldly(self, profile: SchedulerProfile, pod: SchedulerPod) -> list[Filter]:
        return [
            each
            for each in profile.filters
            if each.scope is FilterScope.WORLD and each.applies(self._cache, pod)
        ]

    def _compose(
        self, pod: SchedulerPod, memo: ShapeResult, feasible: Bools, scores: list[tuple[Score, int]]
    ) -> Ints:
        total = memo.value.copy()
        for score, weight, raw in memo.compared:
            total += weight * score.normalized(self._cache, pod, raw, feasible)
        for score, weight in scores:
            raw = score.raw(self._cache, pod, EVERY)
            total += weight * score.normalized(self._cache, pod, raw, feasible)
        total[~feasible] = INFEASIBLE
        return total

    def fits(self, pod: SchedulerPod, slot: int) -> bool:
        """Whether the pod could go to this node as it is."""
        rows = rows_of([slot])
        if not self._cache.nodes.is_alive[slot]:
            return False
        return all(
            bool(each.passes(self._cache, pod, rows)[0])
            for each in self.profile(pod).filters
            if each.applies(self._cache, pod)
        )

    def reasons_at(self, pod: SchedulerPod, slot: int) -> list[str]:
        """What the first filter that refuses the pod on this node says."""
        rows = rows_of([slot])
        for each in self.profile(pod).filters:
            if each.applies(self._cache, pod) and not each.passes(self._cache, pod, rows)[0]:
                return [one.reason for one in each.refusals(self._cache, pod) if one.nodes[slot]]
        return []

    def explain(self, pod: SchedulerPod) -> SchedulingExplanation:
        nodes = self._cache.nodes
        nobody = np.zeros(nodes.size, dtype=np.bool_)
        message, cause = self.fault(pod)
        if message or nodes.count == 0:
            cause |= WakeCause.NOTHING if message else WakeCause.NODE_ADDED
            return SchedulingExplanation(nodes.count, message, Counter(), nobody, cause)
        found = SchedulingExplanation(nodes.count, "", Counter(), nobody, WakeCause.NOTHING)
        left = self._leave_out(pod, found)
        for each in self.profile(pod).filters:
            if each.applies(self._cache, pod):
                left = self._tell(pod, each, left, found)
        return found

    def _leave_out(self, pod: SchedulerPod, found: SchedulingExplanation) -> Bools:
        """Nodes that are looked at one by one: where affinity names nodes, the others are told in one."""
        nodes, selector = self._cache.nodes, pod.shape.nodes
        names = None if selector is None else selector.names
        if names is None:
            return nodes.is_alive.copy()
        named = np.zeros(nodes.size, dtype=np.bool_)
        named[[slot for name in names if (slot := nodes.slot(name)) is not None]] = True
        others = nodes.count - int(named.sum())
        if others:
            found.reasons["node(s) didn't satisfy plugin(s) [NodeAffinity]"] += others
            found.cured_by |= WakeCause.NODE_ADDED
        return named

    def _tell(self, pod: SchedulerPod, each: Filter, left: Bools, found: SchedulingExplanation) -> Bools:
        passing = each.passes(self._cache, pod, EVERY)
        failing = left & ~passing
        if failing.any():
            found.cured_by |= each.cured_by
            for refusal in each.refusals(self._cache, pod):
                hit = refusal.nodes & failing
                if count := int(hit.sum()):
                    found.reasons[refusal.reason] += count
                    if refusal.is_curable:
                        found.curable |= hit
        return left & passing
