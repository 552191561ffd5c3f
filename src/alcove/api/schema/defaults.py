"""Checks that defaults in a CRD's schema conform to the schema: known fields, valid values.

The schema is compiled once; the cost of each default depends on its size, not on its depth.
"""

import copy
from collections.abc import Iterator
from typing import Any

from alcove.api.fields import FieldError, invalid
from alcove.api.schema.error_sink import MISSING
from alcove.api.schema.invariants import check_embedded
from alcove.api.schema.node import SchemaNode, SchemaType
from alcove.api.schema.prune import prune
from alcove.api.schema.structural import compile_schema
from alcove.api.schema.values import compile_values

Schema = dict[str, Any]


def default_errors(schema: Schema, path: str, metadata: SchemaNode) -> list[FieldError]:
    root = compile_schema(schema, "", metadata)
    nodes_with_default = _with_defaults(schema, root, path)
    return [error for part, node, where in nodes_with_default for error in _check(part, node, where)]


def has_defaults(schema: Schema) -> bool:
    parts = [
        *(schema.get("properties") or {}).values(),
        schema.get("items"),
        schema.get("additionalProperties"),
    ]
    return schema.get("default") is not None or any(
        has_defaults(part) for part in parts if isinstance(part, dict)
    )


def _with_defaults(schema: Schema, node: SchemaNode, path: str) -> Iterator[tuple[Schema, SchemaNode, str]]:
    """Yield the nodes that have a default; there cannot be any under additionalProperties."""
    if schema.get("default") is not None:
        yield schema, node, f"{path}.default"
    if isinstance(schema.get("items"), dict) and node.items is not None:
        yield from _with_defaults(schema["items"], node.items, f"{path}.items")
    for name, part in (schema.get("properties") or {}).items():
        yield from _with_defaults(part, node.properties[name], f"{path}.properties[{name}]")


def _check(schema: Schema, node: SchemaNode, path: str) -> list[FieldError]:
    default = schema["default"]
    errors: list[FieldError] = []
    if not _is_pruned(node, default):
        errors.append(invalid(path, default, "must not have unknown fields"))
    value_errors: list[FieldError] = []
    _check_embedded_in(schema, default, "", value_errors)
    value_errors += [] if value_errors else compile_values(schema)(default, MISSING)
    return errors + [FieldError(error.fault, _under(path, error.field), error.body) for error in value_errors]


def _under(path: str, field: str) -> str:
    return f"{path}.{field.lstrip('.')}" if field and field != "<nil>" else path


def _is_pruned(node: SchemaNode, default: Any) -> bool:
    holder = SchemaNode(SchemaType.OBJECT)
    holder.properties = {"value": node}
    pruned = {"value": copy.deepcopy(default)}
    prune(holder, pruned)
    return pruned == {"value": default}


def _check_embedded_in(schema: Any, value: Any, path: str, errors: list[FieldError]) -> None:
    if not isinstance(schema, dict):
        return
    if schema.get("x-kubernetes-embedded-resource"):
        check_embedded(value, path, errors)
    if isinstance(value, dict):
        properties, values = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, part in value.items():
            _check_embedded_in(properties.get(name, values), part, f"{path}.{name}", errors)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            _check_embedded_in(schema.get("items"), part, f"{path}[{index}]", errors)
