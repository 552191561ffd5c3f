"""Columns and formatting shared by many kinds: name, age, missing values, labels, lists."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from alcove.api import objects, selectors
from alcove.api.columns import duration
from alcove.api.errors import BadRequest
from alcove.api.kind import PrinterColumn
from alcove.api.meta import parse_time
from alcove.api.objects import Object

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"
WIDE = 1
"""The priority of columns that are shown only with `-o wide`."""
SHOWN_MAX = 3
"""Number of entries shown of a long list (endpoints, hosts), followed by how many more there are."""

Value = Callable[[Object, float], Any]


def age_of(timestamp: Any, now: float) -> str:
    """Return the age of an RFC 3339 timestamp; `<unknown>` if there is none."""
    return duration.human(now - parse_time(timestamp)) if timestamp else UNKNOWN


def at(*path: str, default: Any = "") -> Value:
    """Return a function that reads the value at a path of the object."""

    def value(obj: Object, _now: float) -> Any:
        return objects.get(obj, *path, default=default)

    return value


def since(*path: str, default: str = UNKNOWN) -> Value:
    """Return a function that shows the age of the timestamp at a path."""

    def value(obj: Object, now: float) -> str:
        timestamp = objects.get(obj, *path)
        return age_of(timestamp, now) if timestamp else default

    return value


def count(*path: str) -> Value:
    """Return a function that counts the entries of the list or map at a path."""

    def value(obj: Object, _now: float) -> int:
        return len(objects.get(obj, *path, default=()))

    return value


def integer(name: str, description: str, *path: str, priority: int = 0) -> PrinterColumn:
    """Return a column of the number at a path, zero if it is absent."""
    return PrinterColumn(name, at(*path, default=0), "integer", description=description, priority=priority)


def counted(name: str, description: str, *path: str) -> PrinterColumn:
    return PrinterColumn(name, count(*path), "integer", description=description)


def show_labels(labels: Mapping[str, str] | None) -> str:
    """Format as `a=b,c=d`, sorted by key."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) if labels else NONE


def show_selector(selector: Object | None) -> str:
    try:
        return str(selectors.from_object(selector)) or NONE
    except BadRequest:  # Stored before validation was as strict: the row must still be shown.
        return "<error>"


def show_some(items: Sequence[str], none: str = NONE) -> str:
    """Format the first few entries of a list, and how many more there are."""
    if not items:
        return none
    shown = ",".join(items[:SHOWN_MAX])
    more = len(items) - SHOWN_MAX
    return f"{shown} + {more} more..." if more > 0 else shown


def joined(items: Iterable[str], none: str = NONE) -> str:
    return ",".join(items) or none


NAME = PrinterColumn(
    "Name", at("metadata", "name"), format="name", description="Name of the object, unique within its kind."
)
AGE = PrinterColumn(
    "Age", since("metadata", "creationTimestamp"), description="Time since the creation of the object."
)
CREATED_AT = PrinterColumn(
    "Created At",
    at("metadata", "creationTimestamp", default=UNKNOWN),
    type="date",
    description="Creation time of the object.",
)

DEFAULT = (NAME, CREATED_AT)
"""Columns of kinds without columns in the table."""
