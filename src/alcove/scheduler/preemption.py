"""Preemption: which pods to evict so that a pod of higher priority of the same tenant fits.

Victims have a lower priority; as few and of as low priority as possible, and none that a disruption budget
protects unless nothing else helps. Priorities are compared within a tenant only, unless ring0's policy allows
one tenant's pods to evict another's.
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
"""Maximum number of candidate nodes to compare."""
TRIALS_MAX = 128
"""Maximum filter runs in one attempt; the next attempt continues after the last node."""
TERMS_PER_TRIAL = 4
"""Number of affinity terms that cost as much as one more filter run."""
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NOT_TRIED = "node(s) will be tried next"
_PRIORITY_OFFSET = 1 << 31

BudgetsOf = Callable[[TenantId], Sequence[DisruptionBudget]]
VictimTenants = Callable[[TenantId], Sequence[TenantId]]


class PreemptionCandidate(Struct):
    slot: int
    victims: list[SchedulerPod]
    """Highest priority first."""
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
        """Chosen victims that are not deleted yet, or were since the last `find`."""

    def note_placed(self, pod: SchedulerPod) -> None:
        nodes = self._placed.setdefault(pod.tenant, {}).setdefault(pod.priority, {})
        nodes.setdefault(pod.node, {})[pod] = None

    def note_gone(self, pod: SchedulerPod) -> None:
        """Call it while the pod still has its node. `doomed` is kept until the pod has no node: it may be
        placed again immediately with changes."""
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

    def ineligible(self, pod: SchedulerPod, nominated: str, explanation: SchedulingExplanation) -> str:
        """Why the pod may not preempt now; empty if it may."""
        if not pod.may_preempt:
            return "not eligible due to preemptionPolicy=Never."
        slot = self._cache.nodes.slot(nominated) if nominated else None
        if slot is None or not explanation.curable[slot]:
            return ""
        for victim in self._cache.on_node.get(nominated, {}):
            # Do not wait for pods that are deleted for other reasons: they may take long.
            is_going = (victim.is_leaving and victim.is_evicted) or victim in self.doomed
            if is_going and victim.priority < pod.priority and self.may_evict(pod, victim):
                return "not eligible due to a terminating pod on the nominated node."
        return ""

    def may_evict(self, pod: SchedulerPod, victim: SchedulerPod) -> bool:
        """Whether the pod may evict the victim's tenant's pods, given a higher priority."""
        return victim.tenant in self.victim_scope(pod)

    def victim_scope(self, pod: SchedulerPod) -> dict[TenantId, None]:
        """Tenants whose pods it may evict: its own, and those that ring0's policy names."""
        return dict.fromkeys((pod.tenant, *self._victim_tenants(pod.tenant)))

    def find(self, pod: SchedulerPod, explanation: SchedulingExplanation) -> PreemptionOutcome:
        self.doomed.difference_update([victim for victim in self.doomed if not victim.node])
        reasons_count: Counter[str] = Counter()
        victims = self._victims_by_node(pod)
        curable = np.flatnonzero(explanation.curable).tolist()
        is_partial = False
        if victims:
            candidates, is_partial = self._candidates(pod, curable, victims, reasons_count)
            if candidates:
                return PreemptionOutcome(min(candidates, key=_cost))
        else:
            reasons_count[NO_VICTIMS] = len(curable)
        reasons_count[NOT_HELPFUL] = explanation.nodes - len(curable)
        reasons_count[NOT_TRIED] = explanation.nodes - reasons_count.total() if is_partial else 0
        reasons = ", ".join(
            sorted(f"{count} {reason}" for reason, count in reasons_count.items() if count > 0)
        )
        return PreemptionOutcome(None, f"0/{explanation.nodes} nodes are available: {reasons}.", is_partial)

    def _candidates(
        self,
        pod: SchedulerPod,
        curable: list[int],
        victims: list[dict[str, dict[SchedulerPod, None]]],
        reasons_count: Counter[str],
    ) -> tuple[list[PreemptionCandidate], bool]:
        """The first candidates, and whether nodes were skipped because of TRIALS_MAX."""
        budgets = [each for tenant in self.victim_scope(pod) for each in self._budgets(tenant)]
        is_simple = only_resources_matter(self._cache, self._evaluator, pod)
        trials_left = TRIALS_MAX
        found: list[PreemptionCandidate] = []
        for slot in self._in_turn(curable):
            name = self._cache.nodes.name(slot)
            potential = [victim for nodes in victims for victim in nodes.get(name, ())]
            if not potential:
                reasons_count[NO_VICTIMS] += 1
                continue
            if len(found) == CANDIDATES_MAX or trials_left <= 0:
                return found, trials_left <= 0
            self._cursor = slot + 1
            resource_trial = ResourceTrial(self._cache, pod, slot)
            if is_simple:
                candidate = self._select(resource_trial, slot, potential, budgets, reasons_count)
            elif self._is_too_small(resource_trial, potential, reasons_count):
                continue
            else:
                trial = WorldTrial(self._cache, self._evaluator, pod, slot)
                candidate = self._select(trial, slot, potential, budgets, reasons_count)
                trials_left -= trial.questions * (1 + terms_of(pod.shape) // TERMS_PER_TRIAL)
            if candidate is not None:
                found.append(candidate)
        return found, False

    @staticmethod
    def _is_too_small(
        trial: ResourceTrial, potential: list[SchedulerPod], reasons_count: Counter[str]
    ) -> bool:
        """Whether the node lacks resources even without all potential victims."""
        for victim in potential:
            trial.remove(victim)
        if trial.fits():
            return False
        reasons_count.update(trial.reasons())
        return True

    def _in_turn(self, slots: list[int]) -> list[int]:
        """The slots in round-robin order, starting after the last attempt."""
        ahead = [slot for slot in slots if slot >= self._cursor]
        return ahead + slots[: len(slots) - len(ahead)]

    def _victims_by_node(self, pod: SchedulerPod) -> list[dict[str, dict[SchedulerPod, None]]]:
        """Potential victims: for each tenant and lower priority, node → pods."""
        return [
            nodes
            for tenant in self.victim_scope(pod)
            for priority, nodes in self._placed.get(tenant, {}).items()
            if priority < pod.priority
        ]

    def _select(
        self,
        trial: Trial,
        slot: int,
        potential: list[SchedulerPod],
        budgets: Sequence[DisruptionBudget],
        reasons_count: Counter[str],
    ) -> PreemptionCandidate | None:
        """Removes all potential victims; if the pod fits then, reprieves as many as possible, protected ones
        and those of high priority first."""
        potential = sorted(potential, key=_importance)
        for victim in potential:
            trial.remove(victim)
        if not trial.fits():
            reasons_count.update(trial.reasons())
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
    """Sort key of candidates: fewest budget violations, lowest victim priorities, fewest victims, and latest
    start."""
    victims = candidate.victims
    highest = victims[0].priority
    total = sum(victim.priority + _PRIORITY_OFFSET for victim in victims)
    earliest = min(victim.started or "~" for victim in victims if victim.priority == highest)
    return (candidate.violations, highest, total, len(victims), tuple(-ord(each) for each in earliest))
