"""Every string field of a kind, and objects with a hostile value in one of them.

for path in string_fields(kind.schema, base):
    caller.post(url, placed(base, path, "../../etc/passwd"))
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from alcove.api.objects import Object
from alcove.api.schema.node import SchemaNode, SchemaType
from alcove.testing.abuse.pods import TOKEN

FieldPath = tuple[str | int, ...]
"""Names of fields, and indexes of list elements."""
NEW_KEY = "k"
"""The key under which a value is put into a map; a path may end with `KEY_ITSELF` instead."""
KEY_ITSELF = "(key)"
DEPTH_MAX = 14
LONG_BYTES = 1 << 20
SERVER_OWNED = frozenset(
    {"managedFields", "ownerReferences", "apiVersion", "kind", "selfLink", "uid", "nodeName"}
)
"""Fields that are not enumerated: the server sets or ignores them, or they say where the object goes."""


def hostile_values(*others: str) -> dict[str, str]:
    """Values by name; `others` are names that belong to other tenants."""
    values = {
        "path": f"../../../../../../../../tmp/{TOKEN}",
        "absolute path": f"/tmp/{TOKEN}",
        "NUL": f"{TOKEN}\x00/etc",
        "newline": f"{TOKEN}\n127.0.0.1 {TOKEN}\n",
        "dots": "..",
        "long": f"{TOKEN}{'x' * LONG_BYTES}",
        "shell": f"$(touch /tmp/{TOKEN});`touch /tmp/{TOKEN}`",
    }
    return values | {f"other's {name}": name for name in others}


def string_fields(schema: SchemaNode, base: Object) -> list[FieldPath]:
    """Paths of all string fields that the schema knows, and of those in `base`, each once."""
    paths = dict.fromkeys((*_of_schema(schema, (), 0), *_of_value(schema, base, ())))
    return [path for path in paths if not SERVER_OWNED & set(map(str, path))]


def _of_schema(node: SchemaNode, path: FieldPath, depth: int) -> Iterator[FieldPath]:
    if depth > DEPTH_MAX:
        return
    match node.type:
        case SchemaType.OBJECT:
            for name, child in node.properties.items():
                yield from _of_schema(child, (*path, name), depth + 1)
        case SchemaType.MAP:
            yield (*path, KEY_ITSELF)
            if node.values is not None:
                yield from _of_schema(node.values, (*path, NEW_KEY), depth + 1)
        case SchemaType.LIST:
            if node.items is not None:
                yield from _of_schema(node.items, (*path, 0), depth + 1)
        case SchemaType.STRING | SchemaType.INT_OR_STRING | SchemaType.QUANTITY:
            yield path


def _of_value(node: SchemaNode | None, value: Any, path: FieldPath) -> Iterator[FieldPath]:
    if isinstance(value, dict):
        for name, each in value.items():
            child = (node.properties.get(name) or node.values) if node is not None else None
            yield from _of_value(child, each, (*path, name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _of_value(node.items if node is not None else None, each, (*path, index))
    elif isinstance(value, str):
        yield path


def placed(base: Object, path: FieldPath, value: str) -> Object:
    """A copy of `base` with the value at the path; what is missing on the way is made."""
    made = copy.deepcopy(base)
    at: Any = made
    for step, following in zip(path, (*path[1:], None), strict=True):
        if following is None or following == KEY_ITSELF:
            if following == KEY_ITSELF:
                at = at.setdefault(step, {}) if isinstance(step, str) else at[step]
                at[value] = TOKEN
            elif isinstance(step, int):
                at[step:] = [value, *at[step + 1 :]]
            else:
                at[step] = value
            return made
        at = _descend(at, step, [] if isinstance(following, int) else {})
    return made


def _descend(at: Any, step: str | int, empty: Any) -> Any:
    if isinstance(step, int):
        while len(at) <= step:
            at.append(copy.copy(empty))
        return at[step]
    return at.setdefault(step, empty)
