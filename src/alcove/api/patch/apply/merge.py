"""Merges an applied configuration into an object: what it names is set, nothing is removed."""

from typing import Any

import orjson

from alcove.api.objects import Object
from alcove.api.patch.apply.shape import ItemList, Struct, ValueShape


def merge(obj: Object, config: Object, shape: Struct) -> None:
    """Changes `obj` in place; parts of `config` end up in it. Raises BadRequest for items without a key."""
    for name, value in config.items():
        obj[name] = _value(obj[name], value, shape.field(name)[1]) if name in obj else value


def _value(there: Any, given: Any, shape: ValueShape) -> Any:
    if isinstance(shape, Struct) and type(there) is dict and there:
        if type(given) is dict:
            merge(there, given, shape)
            return there
        if given is None:
            return there  # A null claims the field; what others have in it stays.
    elif isinstance(shape, ItemList) and type(there) is list and there:
        if type(given) is list:
            # As bytes: to Python, true equals 1.
            is_same = orjson.dumps(there) == orjson.dumps(given)
            return there if is_same else _items(there, given, shape)
        if given is None:
            return there
    return given


def _items(there: list[Any], given: list[Any], shape: ItemList) -> list[Any]:
    """Both lists' items: those of `given` in its order, the others where they were among them."""
    had = shape.index(there)
    wanted = {shape.element(item): item for item in given}
    order = iter(wanted)
    shared = iter([element for element in wanted if element in had])
    next_shared = next(shared, None)
    merged: list[Any] = []
    for item in there:
        element = shape.element(item)
        if element not in wanted:
            merged.append(item)
        elif element == next_shared:
            for placed in order:
                merged.append(_item(had.get(placed), wanted[placed], shape))
                if placed == element:
                    break
            next_shared = next(shared, None)
        elif next_shared is None and (following := next(order, None)) is not None:
            # A duplicate of what has been placed makes room for what the configuration has next.
            merged.append(_item(had.get(following), wanted[following], shape))
    return merged + [_item(had.get(placed), wanted[placed], shape) for placed in order]


def _item(there: list[Any] | None, given: Any, shape: ItemList) -> Any:
    # Of duplicates nobody knows which one is meant: they are replaced.
    return _value(there[0], given, shape.item) if there is not None and len(there) == 1 else given
