"""Preemption: whom to evict so that a more important pod of the same tenant can be placed.

Victims have a lower priority; as few and as unimportant ones as possible, and none that a disruption
budget protects unless there is no other way. A tenant's priority means nothing outside the tenant:
only ring0's policy can say that one tenant's pods may evict another's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.scheduler.budgets import DisruptionBudget, violating
from alcove.scheduler.evaluator import NodeEvaluator, SchedulingExplanation
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.trials import ResourceTrial, Trial, WorldTrial, only_resources_matter, terms_of

CANDIDATES_MAX = 100
"""Nodes on which victims are found before the best is taken."""
TRIALS_MAX = 128
"""Questions to filters in one attempt, where that is costly; the next attempt goes on after them."""
TERMS_PER_TRIAL = 4
"""So many terms about other pods cost as much as one question more."""
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NOT_TRIED = "node(s) will be tried next"
_PRIORITY_OFFSET = 1 << 31

BudgetsOf = Callable[[TenantId], Sequence[DisruptionBudget]]
VictimTenants = Callable[[TenantId], Sequence[TenantId]]


class PreemptionCandidate(Struct):
    slot: int
    victims: list[SchedulerPod]
    """The most important first."""
    violations: int


class PreemptionOutcome(Struct):
    """The best candidate, or why there is none."""

    candidate: PreemptionCandidate | None = None
    text: str = ""
    is_partial: bool = False
    """Not every node was tried."""


class Preemption:
    def __init__(
        self,
        cache: SchedulerCache,
        evaluator: NodeEvaluator,
        budgets: BudgetsOf,
        victim_tenants: VictimTenants,
    ) -> None:
        self._cache = cache
        self._evaluator = evaluator
        self._budgets = budgets
        self._victim_tenants = victim_tenants
        self._placed: dict[TenantId, dict[int, dict[str, dict[SchedulerPod, None]]]] = {}
        """Placed pods: tenant → priority → node → pods."""
        self._cursor = 0
        self.doomed: set[SchedulerPod] = set()
        """Victims that were chosen and are not gone yet (or went since the last look for victims)."""

    def note_placed(self, pod: SchedulerPod) -> None:
        nodes = self._placed.setdefault(pod.tenant, {}).setdefault(pod.priority, {})
        nodes.setdefault(pod.node, {})[pod] = None

    def note_gone(self, pod: SchedulerPod) -> None:
        """To be called while the pod still has its node. It may come back at once, changed: whether it is
        doomed is forgotten only once it has no node."""
        priorities = self._placed.get(pod.tenant, {})
        nodes = priorities.get(pod.priority, {})
        pods = nodes.get(pod.node)
        if pods is None:
            return
        pods.pop(pod, None)
        if not pods:
            del nodes[pod.node]
        if not nodes:
            del priorities[pod.priority]
        if not priorities:
            del self._placed[pod.tenant]

    def ineligible(self, pod: SchedulerPod, nominated: str, why: SchedulingExplanation) -> str:
        """Why the pod may not preempt now; empty if it may."""
        if not pod.may_preempt:
            return "not eligible due to preemptionPolicy=Never."
        slot = self._cache.nodes.slot(nominated) if nominated else None
        if slot is None or not why.curable[slot]:
            return ""
        for victim in self._cache.on_node.get(nominated, {}):
            # Whoever goes for another reason may take its time: that is not to be waited for.
            is_going = (victim.is_leaving and victim.is_evicted) or victim in self.doomed
            if is_going and victim.priority < pod.priority and self.may_evict(pod, victim):
                return "not eligible due to a terminating pod on the nominated node."
        return ""

    def may_evict(self, pod: SchedulerPod, victim: SchedulerPod) -> bool:
        """Whether it could, were it more important: its priority means something to the other."""
        return victim.tenant in self._reach(pod)

    def _reach(self, pod: SchedulerPod) -> dict[TenantId, None]:
        """Tenants whose pods it may evict, each once: its own, and those that ring0 says."""
        return dict.fromkeys((pod.tenant, *self._victim_tenants(pod.tenant)))

    def find(self, pod: SchedulerPod, why: SchedulingExplanation) -> PreemptionOutcome:
        self.doomed.difference_update([victim for victim in self.doomed if not victim.node])
        told: Counter[str] = Counter()
        victims = self._victims_by_node(pod)
        curable = np.flatnonzero(why.curable).tolist()
        is_partial = False
        if victims:
            candidates, is_partial = self._candidates(pod, curable, victims, told)
            if candidates:
                return PreemptionOutcome(min(candidates, key=_cost))
        else:
            told[NO_VICTIMS] = len(curable)
        told[NOT_HELPFUL] = why.nodes - len(curable)
        told[NOT_TRIED] = why.nodes - told.total() if is_partial else 0
        reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in told.items() if count > 0))
        return PreemptionOutcome(None, f"0/{why.nodes} nodes are available: {reasons}.", is_partial)

    def _candidates(
        self,
        pod: SchedulerPod,
        curable: list[int],
        victims: list[dict[str, dict[SchedulerPod, None]]],
        told: Counter[str],
    ) -> tuple[list[PreemptionCandidate], bool]:
        """The first that are found, and whether nodes were left out for the work it is."""
        budgets = [each for tenant in self._reach(pod) for each in self._budgets(tenant)]
        is_simple = only_resources_matter(self._cache, self._evaluator, pod)
        trials_left = TRIALS_MAX
        found: list[PreemptionCandidate] = []
        for slot in self._in_turn(curable):
            name = self._cache.nodes.name(slot)
            potential = [victim for nodes in victims for victim in nodes.get(name, ())]
            if not potential:
                told[NO_VICTIMS] += 1
                continue
            if len(found) == CANDIDATES_MAX or trials_left <= 0:
                return found, trials_left <= 0
            self._cursor = slot + 1
            quick = ResourceTrial(self._cache, pod, slot)
            if is_simple:
                candidate = self._select(quick, slot, potential, budgets, told)
            elif self._is_too_small(quick, potential, told):
                continue
            else:
                trial = WorldTrial(self._cache, self._evaluator, pod, slot)
                candidate = self._select(trial, slot, potential, budgets, told)
                trials_left -= trial.questions * (1 + terms_of(pod.shape) // TERMS_PER_TRIAL)
            if candidate is not None:
                found.append(candidate)
        return found, False

    @staticmethod
    def _is_too_small(trial: ResourceTrial, potential: list[SchedulerPod], told: Counter[str]) -> bool:
        """Whether the node lacks resources though all left."""
        for victim in potential:
            trial.remove(victim)
        if trial.fits():
            return False
        told.update(trial.reasons())
        return True

    def _in_turn(self, slots: list[int]) -> list[int]:
        """Beginning where the last attempt ended, so that not always the same nodes suffer."""
        ahead = [slot for slot in slots if slot >= self._cursor]
        return ahead + slots[: len(slots) - len(ahead)]

    def _victims_by_node(self, pod: SchedulerPod) -> list[dict[str, dict[SchedulerPod, None]]]:
        """Whom the pod outranks and may evict: for each such tenant and priority, node → pods."""
        return [
            nodes
            for tenant in self._reach(pod)
            for priority, nodes in self._placed.get(tenant, {}).items()
            if priority < pod.priority
        ]

    def _select(
        self,
        trial: Trial,
        slot: int,
        potential: list[SchedulerPod],
        budgets: Sequence[DisruptionBudget],
        told: Counter[str],
    ) -> PreemptionCandidate | None:
        """Take all out; if the pod fits then, let back in whoever still leaves room, protected and
        important ones first."""
        potential = sorted(potential, key=_importance)
        for victim in potential:
            trial.remove(victim)
        if not trial.fits():
            told.update(trial.reasons())
            for victim in potential:
                trial.put_back(victim)
            return None
        protected = violating(potential, budgets) if budgets else set()
        if protected:
            potential.sort(key=lambda each: each not in protected)
        victims = []
        for victim in potential:
            trial.put_back(victim)
            if not trial.fits():
                trial.remove(victim)
                victims.append(victim)
        for victim in victims:
            trial.put_back(victim)
        if protected:
            victims.sort(key=_importance)
        return PreemptionCandidate(slot, victims, sum(victim in protected for victim in victims))


def _importance(pod: SchedulerPod) -> tuple[int, str]:
    """Sorts the most important first: the highest priority, then the longest running."""
    return (-pod.priority, pod.started or "~")


def _cost(candidate: PreemptionCandidate) -> tuple[int, int, int, int, tuple[int, ...]]:
    """What is preferred, in this order: no budget overdrawn, unimportant victims, few of them, and among
    equals those that started last."""
    victims = candidate.victims
    most = victims[0].priority
    total = sum(victim.priority + _PRIORITY_OFFSET for victim in victims)
    earliest = min(victim.started or "~" for victim in victims if victim.priority == most)
    return (candidate.violations, most, total, len(victims), tuple(-ord(each) for each in earliest))
