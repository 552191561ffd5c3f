"""Checks that an applied configuration matches its schema: apply rejects what other writes drop or ignore."""

from collections.abc import Iterator, Sequence
from typing import Any

from alcove.api.errors import BadRequest
from alcove.api.objects import Object
from alcove.api.patch.apply import elements, shape
from alcove.api.patch.apply.shape import ItemList
from alcove.api.patch.document import type_name
from alcove.api.schema.node import SchemaNode, SchemaType

_EXPECTED: dict[SchemaType, tuple[str, tuple[type, ...]]] = {
    SchemaType.OBJECT: ("map", (dict,)),
    SchemaType.MAP: ("map", (dict,)),
    SchemaType.LIST: ("list", (list,)),
    SchemaType.STRING: ("string", (str,)),
    SchemaType.INTEGER: ("numeric (int or float)", (int, float)),
    SchemaType.NUMBER: ("numeric (int or float)", (int, float)),
    SchemaType.BOOLEAN: ("boolean", (bool,)),
    SchemaType.INT_OR_STRING: ("any scalar", (int, str, float)),
    SchemaType.QUANTITY: ("any scalar", (int, str, float)),
}


PathError = tuple[tuple[str, ...], str]


def errors(config: Object, node: SchemaNode) -> list[str]:
    """Return the errors, each as `.path: message`."""
    return [f"{elements.shown(path)}: {message}" for path, message in _field_errors(config, node)]


def _errors(value: Any, node: SchemaNode) -> Sequence[PathError]:
    """Paths are built on the way up: in most cases there is no error."""
    if type(value) is node.exact or value is None or node.type is SchemaType.ANY:
        return ()
    expected, types = _EXPECTED[node.type]
    if type(value) not in types:
        return [((), f"expected {expected}, got {type_name(value)}")]
    if type(value) is dict:
        return _field_errors(value, node)
    if type(value) is list and node.items is not None:
        return _item_errors(value, node, node.items)
    return ()


def _field_errors(value: Object, node: SchemaNode) -> Sequence[PathError]:
    problems: list[PathError] = []
    properties, others = node.properties, node.values
    for name, part in value.items():
        child = properties.get(name, others)
        if child is not None:
            if below := _errors(part, child):
                problems += _under(elements.field(name), below)
        elif properties and not node.preserve_unknown:
            problems.append(((elements.field(name),), "field not declared in schema"))
    return problems


def _item_errors(items: list[Any], node: SchemaNode, item_node: SchemaNode) -> Sequence[PathError]:
    problems: list[PathError] = []
    listed = shape.of(node)
    seen: set[str] = set()
    for index, item in enumerate(items):
        element = f"i:{index}"
        if isinstance(listed, ItemList):
            try:
                element = listed.element(item)
            except BadRequest as error:
                problems.append(((), f"element {index}: {error.message}"))
                continue
            if element in seen:
                problems.append(((), f"duplicate entries for key {elements.shown((element,))}"))
            seen.add(element)
        if below := _errors(item, item_node):
            problems += _under(element, below)
    return problems


def _under(element: str, below: Sequence[PathError]) -> Iterator[PathError]:
    return (((element, *path), message) for path, message in below)
