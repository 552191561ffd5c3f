"""OpenAPI v2 in the protobuf form that older kubectl and helm request (gnostic's messages). Encoding only.

Only what such clients read is encoded: the definitions, and the kinds and query parameters of operations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from alcove.api.objects import Object

_SCHEMA_TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_SCHEMA_NUMBERS = {"maxLength": 11, "minLength": 12, "maxItems": 14, "minItems": 15}
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def encode(document: Object) -> bytes:
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(_message(2, _named(path, _path_item(item))) for path, item in document["paths"].items())
    definitions = b"".join(
        _message(1, _named(name, _schema(schema))) for name, schema in document["definitions"].items()
    )
    return _text(1, document["swagger"]) + _message(2, info) + _message(8, paths) + _message(9, definitions)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _message(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode()) if text else b""


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + _message(2, value)


def _any(value: Any) -> bytes:
    """Any value as YAML, of which JSON is a subset."""
    return _text(2, orjson.dumps(value).decode() + "\n")


def _extensions(number: int, holder: Object) -> bytes:
    return b"".join(
        _message(number, _named(field, _any(value)))
        for field, value in holder.items()
        if field.startswith("x-")
    )


def _schema(schema: Object) -> bytes:
    parts = [_text(number, schema[field]) for field, number in _SCHEMA_TEXTS.items() if field in schema]
    parts += [_number(number, schema[field]) for field, number in _SCHEMA_NUMBERS.items() if field in schema]
    if "default" in schema:
        parts.append(_message(5, _any(schema["default"])))
    parts += [_text(19, name) for name in schema.get("required", ())]
    parts += [_message(20, _any(value)) for value in schema.get("enum", ())]
    if "additionalProperties" in schema:
        parts.append(_message(21, _additional(schema["additionalProperties"])))
    if isinstance(schema.get("type"), str):
        parts.append(_message(22, _text(1, schema["type"])))
    if isinstance(schema.get("items"), dict):
        parts.append(_message(23, _message(1, _schema(schema["items"]))))
    parts += [_message(24, _schema(each)) for each in schema.get("allOf", ())]
    if "properties" in schema:
        parts.append(_message(25, _properties(schema["properties"].items())))
    parts.append(_extensions(31, schema))
    return b"".join(parts)


def _additional(value: Any) -> bytes:
    return _number(2, int(value)) if isinstance(value, bool) else _message(1, _schema(value))


def _properties(fields: Iterable[tuple[str, Object]]) -> bytes:
    return b"".join(_message(1, _named(name, _schema(schema))) for name, schema in fields)


def _path_item(item: Object) -> bytes:
    return b"".join(
        _message(_METHODS[method], _operation(operation))
        for method, operation in item.items()
        if method in _METHODS
    )


def _operation(operation: Object) -> bytes:
    parts = [_text(3, operation["description"]), _text(5, operation["operationId"])]
    parts += [_text(7, form) for form in operation.get("consumes", ())]
    parts += [
        _message(8, _parameter(parameter))
        for parameter in operation["parameters"]
        if parameter["in"] == "query"
    ]
    parts.append(_extensions(13, operation))
    return b"".join(parts)


def _parameter(parameter: Object) -> bytes:
    query = _text(2, "query") + _text(3, parameter["description"]) + _text(4, parameter["name"])
    query += _text(6, parameter["type"])
    return _message(1, _message(2, _message(3, query)))
