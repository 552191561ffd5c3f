"""Field errors: what is wrong with one field of an object, in the text Kubernetes uses.

A validator returns a list of these; `errors.Invalid` turns them into a 422 with `details.causes`.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Any

import orjson
from msgspec import Struct


class Fault(Enum):
    """The `reason` of a cause, and the text Kubernetes uses for it in a message."""

    NOT_FOUND = ("FieldValueNotFound", "Not found")
    REQUIRED = ("FieldValueRequired", "Required value")
    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    NOT_SUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    TOO_LONG = ("FieldValueTooLong", "Too long")
    TOO_MANY = ("FieldValueTooMany", "Too many")
    INTERNAL = ("InternalError", "Internal error")
    TYPE_INVALID = ("FieldValueTypeInvalid", "Invalid value")


class FieldError(Struct, frozen=True):
    fault: Fault
    field: str
    """Path as Kubernetes writes it: `spec.containers[0].ports[1].name`, `metadata.labels[a/b]`."""
    body: str
    """The message without the path: `Invalid value: -1: must be greater than or equal to 0`."""

    @property
    def reason(self) -> str:
        return self.fault.value[0]

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def _make(fault: Fault, field: str, *parts: str) -> FieldError:
    return FieldError(fault, field, ": ".join([fault.value[1], *(part for part in parts if part)]))


def quote(value: Any) -> str:
    """Format a value for an error message: strings quoted, other values as JSON."""
    return orjson.dumps(value).decode()


def required(field: str, detail: str = "") -> FieldError:
    return _make(Fault.REQUIRED, field, detail)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    return _make(Fault.INVALID, field, quote(value), detail)


def type_invalid(field: str, value: Any, detail: str) -> FieldError:
    return _make(Fault.TYPE_INVALID, field, quote(value), detail)


def not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    allowed = ", ".join(quote(choice) for choice in supported)
    return _make(Fault.NOT_SUPPORTED, field, quote(value), f"supported values: {allowed}" if allowed else "")


def duplicate(field: str, value: Any) -> FieldError:
    return _make(Fault.DUPLICATE, field, quote(value))


def not_found(field: str, value: Any) -> FieldError:
    return _make(Fault.NOT_FOUND, field, quote(value))


def forbidden(field: str, detail: str) -> FieldError:
    return _make(Fault.FORBIDDEN, field, detail)


def too_long(field: str, maximum_bytes: int) -> FieldError:
    return _make(Fault.TOO_LONG, field, f"may not be more than {maximum_bytes} bytes")


def too_many(field: str, actual: int, maximum: int) -> FieldError:
    return _make(Fault.TOO_MANY, field, str(actual), f"must have at most {maximum} items")


def internal(field: str, detail: str) -> FieldError:
    return _make(Fault.INTERNAL, field, detail)
