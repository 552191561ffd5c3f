"""policy: disruption budgets, and the eviction that asks them. The asking is the server's part."""

from alcove.api.fields import FieldError, invalid
from alcove.api.kind import Strategy
from alcove.api.kinds.checks import (
    at_most_100_percent,
    conditions,
    not_negative,
    one_of,
    positive_int_or_percent,
)
from alcove.api.kinds.labelselectors import validate_label_selector
from alcove.api.objects import Object

UNHEALTHY_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


def validate_budget(budget: Object) -> list[FieldError]:
    spec = budget.get("spec") or {}
    faults: list[FieldError] = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        message = "minAvailable and maxUnavailable cannot be both set"
        faults.append(invalid("spec", spec, message))
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            faults += positive_int_or_percent(spec[field], f"spec.{field}")
            faults += at_most_100_percent(spec[field], f"spec.{field}")
    faults += validate_label_selector(spec.get("selector"), "spec.selector")
    if "unhealthyPodEvictionPolicy" in spec:
        path = "spec.unhealthyPodEvictionPolicy"
        faults += one_of(spec["unhealthyPodEvictionPolicy"], UNHEALTHY_POLICIES, path)
    return faults


def validate_budget_status(new: Object, _old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    counters = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    faults = conditions(status.get("conditions") or (), "status.conditions")
    return faults + not_negative(status, "status", *counters)


STRATEGIES: dict[str, Strategy] = {
    "poddisruptionbudgets": Strategy(
        validate=validate_budget,
        validate_status=validate_budget_status,
        has_status=True,
        counts_generation=True,
        unconditional_update=False,
    ),
}
