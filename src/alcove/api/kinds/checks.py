"""Small checks and fillers that strategies of many groups share. Paths are dotted texts.

A check takes what it checks and where that is, and returns what is wrong, in Kubernetes' words.
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
    """Sets a default where nothing, or an empty text, is given."""
    if obj.get(field) in (None, ""):
        obj[field] = value


def child(obj: Object, field: str) -> Object:
    """The object in `field`, made if it is missing: for defaults inside it."""
    return obj.setdefault(field, {})  # type: ignore[no-any-return]


def unchanged(new: Object, old: Object, path: str, *fields: str) -> list[FieldError]:
    """Immutable fields of the object at `path` (empty: of the whole object)."""
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
    """What a naming rule finds wrong with a value."""
    return [invalid(path, value, message) for message in check(value)]


def named_required(value: str, check: names.Check, path: str) -> list[FieldError]:
    return named(value, check, path) if value else [required(path)]


def positive_int_or_percent(value: int | str, path: str) -> list[FieldError]:
    """A count that is not negative, or a percentage."""
    if isinstance(value, str):
        return named(value, names.percent, path)
    return [invalid(path, value, NOT_NEGATIVE)] if value < 0 else []


def percent_value(value: int | str) -> int | None:
    """The number of a well-formed percentage; None for everything else."""
    return int(value[:-1]) if isinstance(value, str) and not names.percent(value) else None


def int_or_percent_value(value: int | str) -> int:
    """The number of a count or percentage, 0 where it is neither."""
    if isinstance(value, int):
        return value
    return percent_value(value) or 0


def at_most_100_percent(value: int | str, path: str) -> list[FieldError]:
    percent = percent_value(value)
    over = percent is not None and percent > 100
    return [invalid(path, value, "must not be greater than 100%")] if over else []


def not_over(status: Object, limit: str, message: str, path: str, *fields: str) -> list[FieldError]:
    """Counters that another counter bounds."""
    most = status.get(limit, 0)
    return [
        invalid(f"{path}.{field}", status.get(field, 0), message)
        for field in fields
        if status.get(field, 0) > most
    ]


def not_decremented(new: Object, old: Object, path: str, field: str) -> list[FieldError]:
    now, before = new.get(field), old.get(field)
    if before is None or (now is not None and now >= before):
        return []
    return [invalid(f"{path}.{field}", now or 0, "cannot be decremented")]


def conditions(entries: Sequence[Object], path: str) -> list[FieldError]:
    """`metav1.Condition`s: one of each type, each with a reason and a time."""
    faults: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(entries):
        kind = condition.get("type", "")
        if kind in seen:
            faults.append(duplicate(f"{path}[{index}].type", kind))
        seen.add(kind)
        faults += _condition(condition, f"{path}[{index}]")
    return faults


def _condition(condition: Object, path: str) -> list[FieldError]:
    faults = named(condition.get("type", ""), names.label_key, f"{path}.type")
    faults += one_of(condition.get("status", ""), ("False", "True", "Unknown"), f"{path}.status")
    if condition.get("observedGeneration", 0) < 0:
        message = "must be greater than or equal to zero"
        faults.append(invalid(f"{path}.observedGeneration", condition["observedGeneration"], message))
    if not condition.get("lastTransitionTime"):
        faults.append(required(f"{path}.lastTransitionTime"))
    reason = condition.get("reason", "")
    faults += named_required(reason, names.condition_reason, f"{path}.reason")
    if len(reason.encode()) > _REASON_LENGTH_MAX_BYTES:
        faults.append(too_long(f"{path}.reason", _REASON_LENGTH_MAX_BYTES))
    if len(condition.get("message", "").encode()) > _MESSAGE_LENGTH_MAX_BYTES:
        faults.append(too_long(f"{path}.message", _MESSAGE_LENGTH_MAX_BYTES))
    return faults


def refused(path: str, message: str) -> FieldError:
    """Invalid, without showing the value: it is large, or the fault is in several fields together."""
    return FieldError(Fault.INVALID, path, f"Invalid value: {message}")
