"""scheduling.k8s.io: PriorityClasses. Admission checks that only one is the global default."""

from alcove.api.fields import FieldError, forbidden
from alcove.api.kind import Strategy
from alcove.api.kinds.checks import fill, one_of_required, unchanged
from alcove.api.objects import Object, name

SYSTEM_PREFIX = "system-"
USER_PRIORITY_MAX = 1_000_000_000
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")


def default_priority_class(obj: Object) -> None:
    fill(obj, "preemptionPolicy", "PreemptLowerPriority")


def validate_priority_class(obj: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    if name(obj).startswith(SYSTEM_PREFIX):
        if message := _system_class_error(obj):
            reserved = f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only"
            errors.append(forbidden("metadata.name", f"{reserved}. error: {message}"))
    elif obj.get("value", 0) > USER_PRIORITY_MAX:
        message = f"maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}"
        errors.append(forbidden("value", message))
    return errors + one_of_required(obj.get("preemptionPolicy", ""), PREEMPTION_POLICIES, "preemptionPolicy")


def _system_class_error(obj: Object) -> str:
    expected = SYSTEM_PRIORITIES.get(name(obj))
    if expected is None:
        return f"{name(obj)} is not a known system priority class"
    if obj.get("value", 0) != expected:
        return f"value of {name(obj)} PriorityClass must be {expected}"
    return f"globalDefault of {name(obj)} PriorityClass must be false" if obj.get("globalDefault") else ""


def validate_priority_class_update(new: Object, old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    if new.get("value", 0) != old.get("value", 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    return errors + unchanged(new, old, "", "preemptionPolicy")


STRATEGIES: dict[str, Strategy] = {
    "priorityclasses": Strategy(
        default=default_priority_class,
        validate=validate_priority_class,
        validate_update=validate_priority_class_update,
        counts_generation=True,
    ),
}
