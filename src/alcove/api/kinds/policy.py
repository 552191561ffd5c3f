"""policy: PodDisruptionBudgets and evictions. The API server evaluates the budgets."""

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
    errors: list[FieldError] = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        message = "minAvailable and maxUnavailable cannot be both set"
        errors.append(invalid("spec", spec, message))
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            errors += positive_int_or_percent(spec[field], f"spec.{field}")
            errors += at_most_100_percent(spec[field], f"spec.{field}")
    errors += validate_label_selector(spec.get("selector"), "spec.selector")
    if "unhealthyPodEvictionPolicy" in spec:
        path = "spec.unhealthyPodEvictionPolicy"
        errors += one_of(spec["unhealthyPodEvictionPolicy"], UNHEALTHY_POLICIES, path)
    return errors


def validate_budget_status(new: Object, _old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    counters = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    errors = conditions(status.get("conditions") or (), "status.conditions")
    return errors + not_negative(status, "status", *counters)


STRATEGIES: dict[str, Strategy] = {
    "poddisruptionbudgets": Strategy(
        validate=validate_budget,
        validate_status=validate_budget_status,
        has_status=True,
        counts_generation=True,
        unconditional_update=False,
    ),
}
