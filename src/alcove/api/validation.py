"""Basic checks that validators are built from: each appends the errors of one field to a list.

The caller builds a path only for a field that is present: validation runs on every write, and most fields of
most objects are absent.
"""

import json
from collections.abc import Container, Sequence
from difflib import unified_diff
from typing import Any

from alcove.api import names, quantity
from alcove.api.fields import FieldError, forbidden, invalid, not_supported, required
from alcove.api.quantity import Quantity, QuantityError

FieldErrors = list[FieldError]

NOT_NEGATIVE = "must be greater than or equal to 0"
NOT_POSITIVE = "must be greater than zero"
INT32_MAX = 2**31 - 1


def check_value(value: str, check: names.Check, field: str, errors: FieldErrors) -> None:
    """Append one Invalid error for each message of `check`."""
    if messages := check(value):
        errors += [invalid(field, value, each) for each in messages]


def check_name(value: str, check: names.Check, field: str, errors: FieldErrors) -> None:
    """Check a required name."""
    if not value:
        errors.append(required(field))
    else:
        check_value(value, check, field, errors)


def check_present(value: Any, field: str, errors: FieldErrors) -> None:
    if not value:
        errors.append(required(field))


def check_choice(value: str, supported: Sequence[str], field: str, errors: FieldErrors) -> None:
    """Check an optional value against a closed set. The error lists the set in the given order."""
    if value not in supported:
        errors.append(not_supported(field, value, supported))


def check_required_choice(value: str, supported: Sequence[str], field: str, errors: FieldErrors) -> None:
    if not value:
        errors.append(required(field))
    elif value not in supported:
        errors.append(not_supported(field, value, supported))


def check_not_negative(value: int, field: str, errors: FieldErrors) -> None:
    if value < 0:
        errors.append(invalid(field, value, NOT_NEGATIVE))


def check_positive(value: int, field: str, errors: FieldErrors) -> None:
    if value <= 0:
        errors.append(invalid(field, value, NOT_POSITIVE))


def check_port(value: int, field: str, errors: FieldErrors) -> None:
    if not 1 <= value <= 65535:
        errors.append(invalid(field, value, names.out_of_range(1, 65535)))


def check_port_or_name(value: int | str, field: str, errors: FieldErrors) -> None:
    if isinstance(value, int):
        check_port(value, field, errors)
    else:
        check_value(value, names.port_name, field, errors)


def check_id(value: int, field: str, errors: FieldErrors) -> None:
    """Check a user ID or group ID."""
    if not 0 <= value <= INT32_MAX:
        errors.append(invalid(field, value, names.out_of_range(0, INT32_MAX)))


def check_forbidden_fields(
    obj: dict[str, Any], allowed: Container[str], message: str, path: str, errors: FieldErrors
) -> None:
    """Every field that is set must be in `allowed`."""
    for name, value in obj.items():
        if name not in allowed and value:
            errors.append(forbidden(f"{path}.{name}", message))


def read_quantity(value: str | int | float, field: str, errors: FieldErrors) -> Quantity | None:
    """Return the quantity, or None after appending an error. (Kubernetes rejects it while decoding.)"""
    try:
        return quantity.of(value)
    except QuantityError as error:
        errors.append(invalid(field, value, str(error)))
        return None


_ZERO_IS_ABSENT = frozenset(
    [
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "stdin",
        "stdinOnce",
        "tty",
        "readOnly",
        "hostPort",
        "initialDelaySeconds",
        "lun",
        "partition",
        "unschedulable",
        "port",
        "nodePort",
        "publishNotReadyAddresses",
        "healthCheckNodePort",
        "observedGeneration",
    ]
)
_EMPTY_COUNTS = frozenset(
    ("storageClassName", "volumeAttributesClassName", "labelSelector", "namespaceSelector", "emptyDir")
)
"""Fields where an empty value has a meaning: no class, select everything, a volume of that type."""


def same(new: Any, old: Any) -> bool:
    """Compare as Kubernetes compares typed objects: an empty value equals an absent one.

    False and 0 also equal an absent value in fields whose Go type cannot tell them apart.
    """
    return bool(new == old) or bool(_without_empty(new) == _without_empty(old))


def _without_empty(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    if not isinstance(value, dict):
        return value
    present: dict[str, Any] = {}
    for field, inner in value.items():
        inner = _without_empty(inner)
        if inner is None or (inner in ("", [], {}) and field not in _EMPTY_COUNTS):
            continue
        if not inner and field in _ZERO_IS_ABSENT:
            continue
        present[field] = inner
    return present


_DIFFERENCE_LINES_MAX = 2000


def difference(old: Any, new: Any) -> str:
    """Return a unified diff of the two as JSON; for large values, whose diff is expensive, a fixed text."""
    before, after = _lines(old), _lines(new)
    if len(before) + len(after) > _DIFFERENCE_LINES_MAX:
        return "(too large to show)"
    return "".join(list(unified_diff(before, after))[2:])


def _lines(value: Any) -> list[str]:
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").splitlines(keepends=True)
