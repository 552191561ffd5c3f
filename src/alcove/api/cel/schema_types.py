"""CEL types from OpenAPI schemas, and the conversion of JSON values to values of these types.

A schema without anything that an expression could use has no type. Objects stay plain JSON; where a field's
CEL value differs from its JSON (a `date-time` is a timestamp, a `set` ignores order), the field has an
adapter that runs when it is read.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from alcove.api.cel.adapters import Adapter, each_item, each_value
from alcove.api.cel.errors import CelError
from alcove.api.cel.escaping import escape
from alcove.api.cel.times import Duration, Timestamp, parse_date, parse_duration, parse_timestamp
from alcove.api.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    CelType,
    TypeField,
    TypeKind,
    list_of,
    map_of,
)
from alcove.api.cel.values import CelSetList, MapList

Schema = dict[str, Any]

_STRING: Schema = {"type": "string"}
_META: Schema = {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}}
_IDENTITY = {"apiVersion": _STRING, "kind": _STRING, "metadata": _META}
_SCALARS = {"boolean": BOOL, "integer": INT, "number": DOUBLE}
_STRINGS = {"byte": BYTES, "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}


def schema_type(schema: Schema, *, is_resource: bool = False) -> CelType | None:
    """Return the type of values under `schema`; None where expressions cannot access them.

    At the root of a resource, apiVersion, kind and the names in metadata are always declared.
    """
    if schema.get("x-kubernetes-int-or-string"):
        return DYN
    kind = schema.get("type")
    if kind == "array":
        item = _nested_type(schema.get("items"))
        return None if item is None else list_of(item)
    if kind == "object":
        values = schema.get("additionalProperties")
        if isinstance(values, dict) and not is_resource:
            value = _nested_type(values)
            return None if value is None else map_of(STRING, value)
        return _object_type(schema, is_resource)
    if kind == "string":
        return _STRINGS.get(schema.get("format", ""), STRING)
    return _SCALARS.get(kind) if isinstance(kind, str) else None


def _nested_type(schema: Any) -> CelType | None:
    if not isinstance(schema, dict):
        return None
    return schema_type(schema, is_resource=bool(schema.get("x-kubernetes-embedded-resource")))


def _object_type(schema: Schema, is_resource: bool) -> CelType:
    properties = schema.get("properties") or {}
    if is_resource:
        properties = {**properties, **_IDENTITY}
    return CelType(TypeKind.OBJECT, "object", (), _Fields(properties), lambda: _deep_object(properties))


class _Fields(Mapping[str, TypeField]):
    """Fields of an object, created on first use: an expression reads few of them."""

    def __init__(self, properties: Schema) -> None:
        self._parts = {spelled: name for name in properties if (spelled := escape(name)) is not None}
        self._properties = properties
        self._fields: dict[str, TypeField] = {}

    def __getitem__(self, spelled: str) -> TypeField:
        field = self._fields.get(spelled)
        if field is not None:
            return field
        name = self._parts[spelled]
        part = self._properties[name]
        of = _nested_type(part)
        if of is None:
            raise KeyError(spelled)
        field = self._fields[spelled] = TypeField(name, of, read_adapter(part))
        return field

    def __iter__(self) -> Iterator[str]:
        return (spelled for spelled in self._parts if self.get(spelled) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def read_adapter(schema: Schema) -> Adapter | None:
    """Return a function that adapts a value when its field is read. None if JSON needs no adapting."""
    match schema.get("type"):
        case "array":
            items = each_item(_unless_null(read_adapter(schema["items"])) if "items" in schema else None)
            return _listed(schema, items)
        case "object":
            values = schema.get("additionalProperties")
            return each_value(_unless_null(read_adapter(values))) if isinstance(values, dict) else None
    return _scalar_adapter(schema)


def _deep(schema: Schema) -> Adapter | None:
    match schema.get("type"):
        case "array":
            return _listed(
                schema, each_item(_unless_null(_deep(schema["items"])) if "items" in schema else None)
            )
        case "object":
            values = schema.get("additionalProperties")
            if isinstance(values, dict):
                return each_value(_unless_null(_deep(values)))
            return _deep_object(schema.get("properties") or {})
    return _scalar_adapter(schema)


def _deep_object(properties: Schema) -> Adapter | None:
    adapters = {name: adapt for name, part in properties.items() if (adapt := _unless_null(_deep(part)))}
    if not adapters:
        return None

    def adapt_object(value: Any) -> Any:
        return {name: adapters[name](part) if name in adapters else part for name, part in value.items()}

    return adapt_object


def _unless_null(adapt: Adapter | None) -> Adapter | None:
    return None if adapt is None else lambda value: None if value is None else adapt(value)


def _listed(schema: Schema, items: Adapter | None) -> Adapter | None:
    """Mark lists whose equality and sum are special."""
    wrap: Callable[[Any], Any] | None = None
    match schema.get("x-kubernetes-list-type"):
        case "set":
            wrap = CelSetList
        case "map":
            keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
            wrap = lambda values: MapList(values, keys)  # noqa: E731
    if wrap is None:
        return items
    if items is None:
        return wrap
    wrap_list = wrap
    return lambda values: wrap_list(items(values))


def _scalar_adapter(schema: Schema) -> Adapter | None:
    match schema.get("type"), schema.get("format"):
        case "number", _:
            return _number
        case "string", "byte":
            return _bytes
        case "string", "duration":
            return _duration
        case "string", "date":
            return _date
        case "string", "date-time":
            return _date_time
    return None


def _number(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError) as error:
        raise CelError(f"Invalid byte formatted string {value}") from error


_WORDY = re.compile(r"([0-9]{1,18})\s*([A-Za-zµ]+)")
_WORDS = (
    ("nano", 1), ("micro", 10**3), ("milli", 10**6), ("sec", 10**9), ("min", 60 * 10**9),
    ("hour", 3600 * 10**9), ("day", 86_400 * 10**9), ("week", 604_800 * 10**9),
)  # fmt: skip
_SHORT = {
    "ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9,
    "h": 3600 * 10**9, "hr": 3600 * 10**9, "d": 86_400 * 10**9, "w": 604_800 * 10**9, "wk": 604_800 * 10**9,
}  # fmt: skip


def _duration(value: Any) -> Any:
    """Parse Go's form, or words (`2 days`) as the format allows."""
    span = parse_duration(value)
    if span is not None:
        return span
    total, found = 0, False
    for match in _WORDY.finditer(value):
        unit = match[2].lower()
        nanos = _SHORT.get(unit) or next((size for word, size in _WORDS if unit.startswith(word)), 0)
        total, found = total + int(match[1]) * nanos, found or nanos > 0
    if not found:
        raise CelError(f"Invalid duration {value}: unable to parse {value} as duration")
    return Duration(total)


def _date(value: Any) -> Any:
    return _required(parse_date(value), "date", value)


def _date_time(value: Any) -> Any:
    return _required(parse_timestamp(value.upper(), zone_required=False), "date-time", value)


def _required(moment: Timestamp | None, format: str, value: str) -> Timestamp:
    if moment is None:
        raise CelError(f"Invalid {format} formatted string {value}")
    return moment
