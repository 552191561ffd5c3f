"""Whether an applied configuration fits its schema: apply refuses what other writes would drop or ignore."""

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


Fault = tuple[tuple[str, ...], str]


def faults(config: Object, node: SchemaNode) -> list[str]:
    """What is wrong, each as `.path: message`."""
    return [f"{elements.shown(path)}: {message}" for path, message in _field_faults(config, node)]


def _faults(value: Any, node: SchemaNode) -> Sequence[Fault]:
    """Paths are put together on the way up: most of the time there is nothing to tell."""
    if type(value) is node.exact or value is None or node.type is SchemaType.ANY:
        return ()
    expected, types = _EXPECTED[node.type]
    if type(value) not in types:
        return [((), f"expected {expected}, got {type_name(value)}")]
    if type(value) is dict:
        return _field_faults(value, node)
    if type(value) is list and node.items is not None:
        return _item_faults(value, node, node.items)
    return ()


def _field_faults(value: Object, node: SchemaNode) -> Sequence[Fault]:
    found: list[Fault] = []
    properties, others = node.properties, node.values
    for name, part in value.items():
        child = properties.get(name, others)
        if child is not None:
            if below := _faults(part, child):
                found += _under(elements.field(name), below)
        elif properties and not node.preserve_unknown:
            found.append(((elements.field(name),), "field not declared in schema"))
    return found


def _item_faults(items: list[Any], node: SchemaNode, item_node: SchemaNode) -> Sequence[Fault]:
    found: list[Fault] = []
    listed = shape.of(node)
    seen: set[str] = set()
    for place, item in enumerate(items):
        element = f"i:{place}"
        if isinstance(listed, ItemList):
            try:
                element = listed.element(item)
            except BadRequest as error:
                found.append(((), f"element {place}: {error.message}"))
                continue
            if element in seen:
                found.append(((), f"duplicate entries for key {elements.shown((element,))}"))
            seen.add(element)
        if below := _faults(item, item_node):
            found += _under(element, below)
    return found


def _under(element: str, below: Sequence[Fault]) -> Iterator[Fault]:
    return (((element, *path), message) for path, message in below)
