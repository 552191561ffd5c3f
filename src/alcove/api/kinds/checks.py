"""Basic checks and defaults shared by strategies of many groups. Paths are dotted strings.

A check takes a value and its path, and returns the errors, with Kubernetes' messages.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from alcove.api import names
from alcove.api.fields import Fault, FieldError, duplicate, invalid, not_supported, required, too_long
from alcove.api.objects import Object
from alcove.api.validation import NOT_NEGATIVE, same

IMMUTABLE = "field is immutable"
ABOVE_ZERO = "must be greater than 0"

_REASON_LENGTH_MAX_BYTES = 1024
_MESSAGE_LENGTH_MAX_BYTES = 32 * 1024


def fill(obj: Object, field: str, value: Any) -> None:
    """Set a default if the field is absent or an empty string."""
    if obj.get(field) in (None, ""):
        obj[field] = value


def child(obj: Object, field: str) -> Object:
    """Return the object in `field`, created if it is missing, for defaults inside it."""
    return obj.setdefault(field, {})  # type: ignore[no-any-return]


def unchanged(new: Object, old: Object, path: str, *fields: str) -> list[FieldError]:
    """Check immutable fields of the object at `path` (empty: the whole object)."""
    return [
        invalid(f"{path}.{field}" if path else field, new.get(field), IMMUTABLE)
        for field in fields
        if not same({field: new.get(field)}, {field: old.get(field)})
    ]


def not_negative(obj: Object, path: str, *fields: str) -> list[FieldError]:
    return [
        invalid(f"{path}.{field}" if path else field, obj[field], NOT_NEGATIVE)
        for field in fields
        if obj.get(field) is not None and obj[field] < 0
    ]


def one_of(value: str, supported: Iterable[str], path: str) -> list[FieldError]:
    choices = tuple(supported)
    return [] if value in choices else [not_supported(path, value, choices)]


def one_of_required(value: str, supported: Iterable[str], path: str) -> list[FieldError]:
    return one_of(value, supported, path) if value else [required(path)]


def named(value: str, check: names.Check, path: str) -> list[FieldError]:
    """Return the errors of a value that violates a naming rule."""
    return [invalid(path, value, message) for message in check(value)]


def named_required(value: str, check: names.Check, path: str) -> list[FieldError]:
    return named(value, check, path) if value else [required(path)]


def positive_int_or_percent(value: int | str, path: str) -> list[FieldError]:
    """Check a count that must not be negative, or a percentage."""
    if isinstance(value, str):
        return named(value, names.percent, path)
    return [invalid(path, value, NOT_NEGATIVE)] if value < 0 else []


def percent_value(value: int | str) -> int | None:
    """Return the number of a well-formed percentage; None for any other value."""
    return int(value[:-1]) if isinstance(value, str) and not names.percent(value) else None


def int_or_percent_value(value: int | str) -> int:
    """Return the number of a count or percentage, 0 if it is neither."""
    if isinstance(value, int):
        return value
    return percent_value(value) or 0


def at_most_100_percent(value: int | str, path: str) -> list[FieldError]:
    percent = percent_value(value)
    over = percent is not None and percent > 100
    return [invalid(path, value, "must not be greater than 100%")] if over else []


def not_over(status: Object, limit: str, message: str, path: str, *fields: str) -> list[FieldError]:
    """Check that counters do not exceed another counter."""
    maximum = status.get(limit, 0)
    return [
        invalid(f"{path}.{field}", status.get(field, 0), message)
        for field in fields
        if status.get(field, 0) > maximum
    ]


def replica_counters(status: Object, *bounded: str, ready: str = "readyReplicas") -> list[FieldError]:
    """Check counters of a workload's status: those in `bounded` are at most `replicas`, and the available ones
    at most the ready ones. `ready` is that field's name in Kubernetes' message."""
    errors = not_over(status, "replicas", "cannot be greater than status.replicas", "status", *bounded)
    return errors + not_over(
        status, "readyReplicas", f"cannot be greater than {ready}", "status", "availableReplicas"
    )


def not_decremented(new: Object, old: Object, path: str, field: str) -> list[FieldError]:
    now, before = new.get(field), old.get(field)
    if before is None or (now is not None and now >= before):
        return []
    return [invalid(f"{path}.{field}", now or 0, "cannot be decremented")]


def conditions(entries: Sequence[Object], path: str) -> list[FieldError]:
    """Check `metav1.Condition`s: unique types, each with a reason and a time."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(entries):
        kind = condition.get("type", "")
        if kind in seen:
            errors.append(duplicate(f"{path}[{index}].type", kind))
        seen.add(kind)
        errors += _condition(condition, f"{path}[{index}]")
    return errors


def _condition(condition: Object, path: str) -> list[FieldError]:
    errors = named(condition.get("type", ""), names.label_key, f"{path}.type")
    errors += one_of(condition.get("status", ""), ("False", "True", "Unknown"), f"{path}.status")
    if condition.get("observedGeneration", 0) < 0:
        message = "must be greater than or equal to zero"
        errors.append(invalid(f"{path}.observedGeneration", condition["observedGeneration"], message))
    if not condition.get("lastTransitionTime"):
        errors.append(required(f"{path}.lastTransitionTime"))
    reason = condition.get("reason", "")
    errors += named_required(reason, names.condition_reason, f"{path}.reason")
    if len(reason.encode()) > _REASON_LENGTH_MAX_BYTES:
        errors.append(too_long(f"{path}.reason", _REASON_LENGTH_MAX_BYTES))
    if len(condition.get("message", "").encode()) > _MESSAGE_LENGTH_MAX_BYTES:
        errors.append(too_long(f"{path}.message", _MESSAGE_LENGTH_MAX_BYTES))
    return errors


def refused(path: str, message: str) -> FieldError:
    """Return Invalid without the value, because it is large or the error involves several fields."""
    return FieldError(Fault.INVALID, path, f"Invalid value: {message}")
