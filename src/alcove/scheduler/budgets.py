"""PodDisruptionBudgets: how many pods of an application may be evicted now."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from alcove.api import selectors
from alcove.api.errors import BadRequest
from alcove.api.ids import TenantId
from alcove.api.objects import Object, get
from alcove.api.selectors import LabelSelector
from alcove.scheduler.pods import SchedulerPod


class DisruptionBudget(Struct, frozen=True):
    tenant: TenantId
    namespace: str
    selector: LabelSelector
    allowed: int
    disrupted: frozenset[str]
    """Pods whose eviction is accounted for already."""

    def covers(self, pod: SchedulerPod) -> bool:
        """An empty selector covers no pod, and a pod without labels is not covered, as in kube-scheduler."""
        if (pod.tenant, pod.namespace) != (self.tenant, self.namespace) or not pod.group.labels:
            return False
        if not self.selector.requirements or pod.name in self.disrupted:
            return False
        return self.selector.matches(pod.group.labels)


def read_budget(tenant: TenantId, budget: Object) -> DisruptionBudget:
    try:
        selector = selectors.from_object(get(budget, "spec", "selector"))
    except BadRequest:
        selector = selectors.NOTHING
    status = budget.get("status") or {}
    return DisruptionBudget(
        tenant,
        budget["metadata"].get("namespace", ""),
        selector,
        status.get("disruptionsAllowed") or 0,
        frozenset(status.get("disruptedPods") or ()),
    )


def violating(victims: Sequence[SchedulerPod], budgets: Sequence[DisruptionBudget]) -> set[SchedulerPod]:
    """Victims whose eviction, in this order, would violate a budget."""
    remaining = [budget.allowed for budget in budgets]
    violators: set[SchedulerPod] = set()
    for pod in victims:
        for index, budget in enumerate(budgets):
            if budget.covers(pod):
                remaining[index] -= 1
                if remaining[index] < 0:
                    violators.add(pod)
    return violators
