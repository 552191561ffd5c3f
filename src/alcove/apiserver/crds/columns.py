"""Printer columns of custom resources: JSONPath values, formatted by the column's type."""

from __future__ import annotations

from typing import Any

import orjson

from alcove.api.columns.base import AGE, NAME
from alcove.api.columns.duration import human
from alcove.api.jsonpath import Find, JsonPathError, compile_path
from alcove.api.kind import PrinterColumn
from alcove.api.meta import parse_time
from alcove.api.objects import Object


def columns_of(version: Object) -> tuple[PrinterColumn, ...]:
    """The name, then the version's columns, or the age if it has none."""
    definitions = version.get("additionalPrinterColumns") or ()
    if not definitions:
        return (NAME, AGE)
    return (NAME, *(_column(each) for each in definitions))


def _column(definition: Object) -> PrinterColumn:
    type = definition.get("type", "string")
    description = (
        definition.get("description")
        or f"Custom resource definition column (in JSONPath format): {definition.get('jsonPath')}"
    )
    return PrinterColumn(
        definition.get("name", ""),
        _cell(definition.get("jsonPath", ""), type),
        type,
        definition.get("format", ""),
        description,
        definition.get("priority", 0),
    )


def _cell(path: str, type: str) -> Any:
    try:
        find: Find | None = compile_path(path)
    except JsonPathError:  # An invalid path gives an empty column, as in Kubernetes.
        find = None

    def value(obj: Object, now: float) -> Any:
        values = find(obj) if find is not None else []
        return _formatted(values[0], type, now) if values and values[0] is not None else None

    return value


def _formatted(value: Any, type: str, now: float) -> Any:
    """The value as a cell of this type; None if it has another type."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match type:
        case "string":
            return _text(value)
        case "integer":
            return int(value) if is_number else None
        case "number":
            return float(value) if is_number else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return _age(value, now) if isinstance(value, str) else None
    return None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return orjson.dumps(value).decode()


def _age(text: str, now: float) -> str:
    try:
        return human(now - parse_time(text))
    except ValueError:
        return "<invalid>"
