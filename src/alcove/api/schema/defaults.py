"""Defaults that a CRD's schema gives must be what it allows: known fields, valid values."""

import copy
from collections.abc import Iterator
from typing import Any

from alcove.api.fields import FieldError, invalid
from alcove.api.schema.invariants import embedded_objects, faults_of
from alcove.api.schema.node import Node
from alcove.api.schema.prune import prune
from alcove.api.schema.sink import MISSING
from alcove.api.schema.structural import compile_schema
from alcove.api.schema.values import compile_values

Schema = dict[str, Any]


def default_faults(schema: Schema, path: str, metadata: Node) -> list[FieldError]:
    return [fault for part, where in _with_defaults(schema, path) for fault in _check(part, where, metadata)]


def _with_defaults(schema: Schema, path: str) -> Iterator[tuple[Schema, str]]:
    """Places with a default; under additionalProperties there may be none."""
    if schema.get("default") is not None:
        yield schema, f"{path}.default"
    if isinstance(schema.get("items"), dict):
        yield from _with_defaults(schema["items"], f"{path}.items")
    for name, part in (schema.get("properties") or {}).items():
        yield from _with_defaults(part, f"{path}.properties[{name}]")


def _check(schema: Schema, path: str, metadata: Node) -> list[FieldError]:
    default = schema["default"]
    faults: list[FieldError] = []
    if not _is_pruned(schema, default, metadata):
        faults.append(invalid(path, default, "must not have unknown fields"))
    found = faults_of(embedded_objects(schema), default) or compile_values(schema)(default, MISSING)
    return faults + [FieldError(fault.fault, _under(path, fault.field), fault.body) for fault in found]


def _under(path: str, field: str) -> str:
    return f"{path}.{field.lstrip('.')}" if field and field != "<nil>" else path


def _is_pruned(schema: Schema, default: Any, metadata: Node) -> bool:
    holder = {"type": "object", "properties": {"value": schema}}
    kept = {"value": copy.deepcopy(default)}
    prune(compile_schema(holder, "", metadata), kept)
    return kept == {"value": default}
