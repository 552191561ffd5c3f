"""Small checks that validators are made of: each adds what is wrong with one field to a list.

Paths are built by the caller, who builds them only for fields that are there: validation is on the
way of every write, and most fields of most objects are absent.
"""

import json
from collections.abc import Container, Sequence
from difflib import unified_diff
from typing import Any

from alcove.api import names, quantity
from alcove.api.fields import FieldError, forbidden, invalid, not_supported, required
from alcove.api.quantity import Quantity, QuantityError

Faults = list[FieldError]

NOT_NEGATIVE = "must be greater than or equal to 0"
NOT_POSITIVE = "must be greater than zero"
INT32_MAX = 2**31 - 1


def check_value(value: str, check: names.Check, field: str, faults: Faults) -> None:
    """One Invalid for each thing that `check` says."""
    if messages := check(value):
        faults += [invalid(field, value, each) for each in messages]


def check_name(value: str, check: names.Check, field: str, faults: Faults) -> None:
    """A required name."""
    if not value:
        faults.append(required(field))
    else:
        check_value(value, check, field, faults)


def check_present(value: Any, field: str, faults: Faults) -> None:
    if not value:
        faults.append(required(field))


def check_choice(value: str, supported: Sequence[str], field: str, faults: Faults) -> None:
    """A value that may be missing, of a closed set. The set is told in the order given."""
    if value not in supported:
        faults.append(not_supported(field, value, supported))


def check_required_choice(value: str, supported: Sequence[str], field: str, faults: Faults) -> None:
    if not value:
        faults.append(required(field))
    elif value not in supported:
        faults.append(not_supported(field, value, supported))


def check_not_negative(value: int, field: str, faults: Faults) -> None:
    if value < 0:
        faults.append(invalid(field, value, NOT_NEGATIVE))


def check_positive(value: int, field: str, faults: Faults) -> None:
    if value <= 0:
        faults.append(invalid(field, value, NOT_POSITIVE))


def check_port(value: int, field: str, faults: Faults) -> None:
    if not 1 <= value <= 65535:
        faults.append(invalid(field, value, names.out_of_range(1, 65535)))


def check_port_or_name(value: int | str, field: str, faults: Faults) -> None:
    if isinstance(value, int):
        check_port(value, field, faults)
    else:
        check_value(value, names.port_name, field, faults)


def check_id(value: int, field: str, faults: Faults) -> None:
    """A user's or group's number."""
    if not 0 <= value <= INT32_MAX:
        faults.append(invalid(field, value, names.out_of_range(0, INT32_MAX)))


def check_forbidden_fields(
    obj: dict[str, Any], allowed: Container[str], message: str, path: str, faults: Faults
) -> None:
    """Everything that is set must be allowed."""
    for name, value in obj.items():
        if name not in allowed and value:
            faults.append(forbidden(f"{path}.{name}", message))


def read_quantity(value: str | int | float, field: str, faults: Faults) -> Quantity | None:
    """The quantity, or None with a fault. (Kubernetes fails such objects while decoding them.)"""
    try:
        return quantity.of(value)
    except QuantityError as error:
        faults.append(invalid(field, value, str(error)))
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
"""Where empty says something: no class at all, everything selected, a volume of that kind."""


def same(new: Any, old: Any) -> bool:
    """Equal as Kubernetes' typed objects are: what is empty is the same as what is not there.

    False and 0 are, too, in fields that cannot tell them from being left out.
    """
    return bool(new == old) or bool(_without_empty(new) == _without_empty(old))


def _without_empty(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for field, inner in value.items():
        inner = _without_empty(inner)
        if inner is None or (inner in ("", [], {}) and field not in _EMPTY_COUNTS):
            continue
        if not inner and field in _ZERO_IS_ABSENT:
            continue
        kept[field] = inner
    return kept


_DIFFERENCE_LINES_MAX = 2000


def difference(old: Any, new: Any) -> str:
    """A unified diff of the two as JSON; of large values only that they differ, for diffs cost time."""
    before, after = _lines(old), _lines(new)
    if len(before) + len(after) > _DIFFERENCE_LINES_MAX:
        return "(too large to show)"
    return "".join(list(unified_diff(before, after))[2:])


def _lines(value: Any) -> list[str]:
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").splitlines(keepends=True)
