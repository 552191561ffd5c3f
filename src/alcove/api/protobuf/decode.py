"""Converts protobuf bytes to the object as it would be in JSON. Every error is a BadRequest.

`fields.txt` has number and type of each field of the stock kinds, a line per message:
`name field:number:type`. A type is s (string), i (varint), b (bool), y (bytes), d (double) or another message;
suffixes are `*` repeated, `%` map from string, `~` inlined into its parent, `?` omitted when zero.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from msgspec import Struct

from alcove.api.errors import BadRequest, TooLarge
from alcove.api.meta import format_micro_time, format_time
from alcove.api.objects import Object
from alcove.api.schema.body import VALUES_MAX, parse_json

MAGIC = b"k8s\x00"
NESTING_MAX = 100

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _Malformed(Exception):
    pass


class MessageField(Struct, frozen=True):
    name: str
    type: str
    is_repeated: bool
    is_map: bool
    is_inline: bool
    omits_zero: bool


Message = dict[int, MessageField]


@cache
def _fields_of(name: str) -> Message | None:
    """Return the message's fields by number; None if there is no such message."""
    line = _lines().get(name)
    return None if line is None else dict(_field(part) for part in line.split())


@cache
def _lines() -> dict[str, str]:
    text = files(__package__).joinpath("fields.txt").read_text()
    return {name: rest for name, _, rest in (line.partition(" ") for line in text.splitlines())}


def _field(part: str) -> tuple[int, MessageField]:
    name, number, typed = part.split(":")
    kind = typed.rstrip("*%~?")
    suffixes = typed[len(kind) :]
    return int(number), MessageField(
        name, kind, "*" in suffixes, "%" in suffixes, "~" in suffixes, "?" in suffixes
    )


def _message_name(api_version: str, kind: str) -> str | None:
    """Return the name of a kind's message; options that every group has are those of meta/v1."""
    group, _, version = api_version.rpartition("/")
    for name in (f"{group.partition('.')[0] or 'core'}.{version}.{kind}", f"meta.v1.{kind}"):
        if name in _lines():
            return name
    return None


class _FieldCount:
    """Counts the fields of one body, which is much smaller than what it decodes to."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = VALUES_MAX

    def spend(self, fields: int = 1) -> None:
        self.left -= fields
        if self.left < 0:
            raise TooLarge(f"the body of the request has too many values: more than {VALUES_MAX}")


def decode(body: bytes) -> Object:
    """Return the object in Kubernetes' envelope, with its apiVersion and kind."""
    if not body.startswith(MAGIC):
        raise BadRequest(
            "the body of the request is not in Kubernetes' protobuf encoding: it does not start with k8s\\0"
        )
    try:
        count = _FieldCount()
        envelope = dict(_parts(memoryview(body)[4:], count))
        names = dict(_parts(_bytes(envelope.get(1, b"")), count))
        api_version, kind = (bytes(_bytes(names.get(number, b""))).decode() for number in (1, 2))
        name = _message_name(api_version, kind)
        if name is None:
            raise BadRequest(
                f"{api_version}, Kind={kind} is not supported as protobuf; send it as application/json"
            )
        obj = _message(name, _bytes(envelope.get(2, b"")), 0, count)
    except (_Malformed, ValueError, struct.error, IndexError) as error:
        raise BadRequest(f"the body of the request is malformed protobuf: {error}") from error
    return {"apiVersion": api_version, "kind": kind, **obj}


def _bytes(value: Any) -> memoryview:
    if not isinstance(value, memoryview | bytes):
        raise _Malformed("expected a message")
    return memoryview(value)


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise _Malformed("varint is too long")


def _parts(data: memoryview, count: _FieldCount) -> Iterator[tuple[int, Any]]:
    """Yield each field's number and raw value."""
    at = 0
    while at < len(data):
        count.spend()
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        value: Any
        if wire == _VARINT:
            value, at = _varint(data, at)
        elif wire == _BYTES:
            length, at = _varint(data, at)
            value = data[at : at + length]
            if len(value) != length:
                raise _Malformed("unexpected end of a field")
            at += length
        elif wire == _FIXED64:
            (value,) = struct.unpack_from("<d", data, at)
            at += 8
        elif wire == _FIXED32:
            (value,) = struct.unpack_from("<f", data, at)
            at += 4
        else:
            raise _Malformed(f"unknown wire type {wire}")
        yield number, value


def _message(name: str, data: memoryview, depth: int, count: _FieldCount) -> Any:
    special = _SPECIAL.get(name)
    if special is not None:
        return special(dict(_parts(data, count)))
    if depth > NESTING_MAX:
        raise _Malformed(f"nested deeper than {NESTING_MAX} levels")
    fields = _fields_of(name)
    if fields is None:
        raise BadRequest(f"{name} is not supported as protobuf; send the object as application/json")
    obj: Object = {}
    for number, raw in _parts(data, count):
        field = fields.get(number)
        if field is None:
            # Dropping an unknown field of a newer client would lose data; the client can send JSON instead.
            raise BadRequest(f"field {number} of {name} is unknown; send the object as application/json")
        _put(obj, field, raw, depth + 1, count)
    unwrap = _UNWRAPPED.get(name)
    return obj if unwrap is None else unwrap(obj)


def _put(obj: Object, field: MessageField, raw: Any, depth: int, count: _FieldCount) -> None:
    if field.is_map:
        entry = dict(_parts(_bytes(raw), count))
        key = bytes(_bytes(entry.get(1, b""))).decode()
        obj.setdefault(field.name, {})[key] = _value(
            field.type, entry.get(2, _zero(field.type)), depth, count
        )
    elif field.is_repeated:
        values = obj.setdefault(field.name, [])
        if field.type == "i" and isinstance(raw, memoryview):
            values += [_signed(number) for number in _packed(raw, count)]
        else:
            values.append(_value(field.type, raw, depth, count))
    else:
        value = _value(field.type, raw, depth, count)
        if field.is_inline:
            obj.update(value)
        elif value is not None and not (field.omits_zero and not value):
            obj[field.name] = value


def _zero(kind: str) -> Any:
    return 0 if kind in ("i", "b") else b""


def _packed(data: memoryview, count: _FieldCount) -> Iterator[int]:
    at = 0
    while at < len(data):
        count.spend()
        value, at = _varint(data, at)
        yield value


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _value(kind: str, raw: Any, depth: int, count: _FieldCount) -> Any:
    match kind:
        case "s":
            return bytes(_bytes(raw)).decode()
        case "i":
            return _signed(_number(raw))
        case "b":
            return bool(_number(raw))
        case "y":
            return base64.b64encode(_bytes(raw)).decode()
        case "d":
            return raw
    return _message(kind, _bytes(raw), depth, count)


def _number(raw: Any) -> int:
    if not isinstance(raw, int):
        raise _Malformed("expected a number")
    return raw


# Messages that are not objects in JSON.


_Parts = dict[int, Any]
"""The fields of a message by number."""


def _text(value: Any) -> str:
    return bytes(_bytes(value)).decode()


def _time(parts: _Parts) -> str | None:
    return format_time(_signed(parts[1])) if 1 in parts else None


def _micro_time(parts: _Parts) -> str | None:
    return format_micro_time(_signed(parts[1]) + parts.get(2, 0) / 1e9) if 1 in parts else None


def _quantity(parts: _Parts) -> str:
    return _text(parts.get(1, b"0"))


def _int_or_string(parts: _Parts) -> int | str:
    return _text(parts.get(3, b"")) if parts.get(1) else _signed(parts.get(2, 0))


def _raw_json(parts: _Parts) -> Any:
    raw = parts.get(1)
    return parse_json(bytes(_bytes(raw))) if raw else None


def _items(obj: Object) -> Any:
    return obj.get("items", [])


def _schema_or(other: str, missing: Any) -> Callable[[Object], Any]:
    return lambda obj: obj["schema"] if "schema" in obj else obj.get(other, missing)


_UNWRAPPED: dict[str, Callable[[Object], Any]] = {
    "authentication.v1.ExtraValue": _items,
    "authorization.v1.ExtraValue": _items,
    "certificates.v1.ExtraValue": _items,
    "apiextensions.v1.JSONSchemaPropsOrArray": _schema_or("jSONSchemas", []),
    "apiextensions.v1.JSONSchemaPropsOrBool": _schema_or("allows", False),
    "apiextensions.v1.JSONSchemaPropsOrStringArray": _schema_or("property", []),
}
"""Messages that exist only because protobuf has no maps of lists and no unions."""

_SPECIAL: dict[str, Callable[[_Parts], Any]] = {
    "meta.v1.Time": _time,
    "meta.v1.MicroTime": _micro_time,
    "meta.v1.FieldsV1": _raw_json,
    "api.resource.Quantity": _quantity,
    "util.intstr.IntOrString": _int_or_string,
    "runtime.RawExtension": _raw_json,
    "apiextensions.v1.JSON": _raw_json,
}
