"""Pruning and defaulting by a schema: drops unknown fields, fills in defaults.

Values of a wrong type are left unchanged; they are checked elsewhere.
"""

import copy
from collections.abc import Iterable
from typing import Any

from alcove.api.objects import Object
from alcove.api.schema.node import SchemaNode, SchemaType
from alcove.api.schema.paths import REPORTED_MAX, FieldPath

_IDENTITY = frozenset(("apiVersion", "kind", "metadata"))


def prune(node: SchemaNode, obj: Object, unknown: list[str] | None = None) -> None:
    """Remove, in place, fields unknown to `node`, and nulls of fields that are not nullable and have no
    default.

    Paths of unknown fields (`spec.items[2].foo`) are appended to `unknown`, at most `REPORTED_MAX` of them.
    An embedded object keeps its apiVersion, kind and metadata.
    """
    _prune(node, obj, None, [] if unknown is None else unknown)


def _prune(node: SchemaNode, value: Any, path: FieldPath | None, unknown: list[str]) -> None:
    if isinstance(value, list):
        _prune_all(node.items, enumerate(value), path, unknown)
    elif node.type is SchemaType.MAP:
        _prune_all(node.values, value.items(), path, unknown)
    else:
        _prune_fields(node, value, path, unknown)


def _prune_all(
    node: SchemaNode | None,
    items: Iterable[tuple[str | int, Any]],
    path: FieldPath | None,
    unknown: list[str],
) -> None:
    if node is not None:
        for key, item in items:
            if isinstance(item, dict | list):
                _prune(node, item, FieldPath(path, key), unknown)


def _prune_fields(node: SchemaNode, obj: Object, path: FieldPath | None, unknown: list[str]) -> None:
    keeps = node.preserve_unknown or node.type is SchemaType.ANY
    for field in list(obj):
        part = node.properties.get(field, node.values)
        value = obj[field]
        if part is not None:
            if value is None and not part.nullable and not part.has_default:
                del obj[field]
            elif isinstance(value, dict | list):
                _prune(part, value, FieldPath(path, field), unknown)
        elif not keeps and not (node.embedded and field in _IDENTITY):
            if len(unknown) < REPORTED_MAX:
                unknown.append(str(FieldPath(path, field)))
            del obj[field]


def apply_defaults(node: SchemaNode, obj: Object) -> None:
    """Set, in place, the defaults of fields that are missing, or null but not nullable."""
    _default(node, obj)


def _default(node: SchemaNode, value: Any) -> None:
    if isinstance(value, dict):
        for field, part in node.properties.items():
            if part.has_default and field not in value:
                value[field] = copy.deepcopy(part.default)
        for field, item in value.items():
            inner = node.properties.get(field, node.values)
            if inner is not None:
                value[field] = _default_item(inner, item)
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            value[index] = _default_item(node.items, item)


def _default_item(node: SchemaNode, value: Any) -> Any:
    if value is None and node.has_default and not node.nullable:
        value = copy.deepcopy(node.default)
    if isinstance(value, dict | list):
        _default(node, value)
    return value
