"""What columns of many kinds share: name, age, and how a missing value is shown."""

from alcove.api import objects
from alcove.api.columns import duration
from alcove.api.kind import Column
from alcove.api.meta import parse_time
from alcove.api.objects import Object

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"


def age_of(timestamp: object, now: float) -> str:
    """How long ago an RFC 3339 timestamp was."""
    if not isinstance(timestamp, str) or not timestamp:
        return UNKNOWN
    return duration.human(now - parse_time(timestamp))


def _age(obj: Object, now: float) -> str:
    return age_of(objects.get(obj, "metadata", "creationTimestamp"), now)


def _created_at(obj: Object, _now: float) -> str:
    return str(objects.get(obj, "metadata", "creationTimestamp", default=UNKNOWN))


def _name(obj: Object, _now: float) -> str:
    return objects.name(obj)


NAME = Column("Name", _name, format="name", description="Name of the object, unique among its kind.")
AGE = Column("Age", _age, description="How long ago the object was made.")
CREATED_AT = Column("Created At", _created_at, type="date", description="When the object was made.")

DEFAULT = (NAME, CREATED_AT)
"""Columns of kinds that have none of their own."""
