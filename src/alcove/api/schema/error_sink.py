"""The collector of value checks: errors found, and the number of steps done so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from alcove.api.fields import FieldError, type_invalid

MISSING: Any = object()
"""Stands for an absent old value."""
NOWHERE = "<nil>"
"""The field of errors that Kubernetes reports without a field."""
STEPS_MAX = 2_000_000
"""Maximum number of steps to check one object; a step takes well under a microsecond."""


class TooCostly(Exception):
    pass


class _Meter:
    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = STEPS_MAX


class ErrorSink(list[FieldError]):
    __slots__ = ("_meter",)

    def __init__(self, meter: _Meter | None = None) -> None:
        super().__init__()
        self._meter = meter or _Meter()

    def spend(self, steps: int) -> None:
        self._meter.left -= steps
        if self._meter.left < 0:
            raise TooCostly

    def aside(self) -> ErrorSink:
        """Return another sink with the same step counter, for errors that may be discarded."""
        return ErrorSink(self._meter)


Check = Callable[[Any, Any, str, ErrorSink], None]
"""(value, old value or MISSING, path, sink for errors)"""


def wrong_type(path: str, expected: str, actual: str) -> FieldError:
    """`spec.x in body must be of type integer: "string"`."""
    return type_invalid(path, actual, f'{path} in body must be of type {expected}: "{actual}"')


def identical(one: Any, other: Any) -> bool:
    """Compare as JSON: true is not 1."""
    if isinstance(one, dict):
        if not isinstance(other, dict) or one.keys() != other.keys():
            return False
        return all(identical(value, other[name]) for name, value in one.items())
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(identical, one, other))
    return bool(one == other) and (type(one) is bool) is (type(other) is bool)
