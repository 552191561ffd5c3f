"""Merges an applied configuration into an object: sets the fields it contains, removes nothing."""

from typing import Any

import orjson

from alcove.api.objects import Object
from alcove.api.patch.apply.shape import ItemList, Struct, ValueShape


def merge(obj: Object, config: Object, shape: Struct) -> None:
    """Change `obj` in place; it will share parts of `config`. Raises BadRequest for items without a key."""
    for name, value in config.items():
        obj[name] = _value(obj[name], value, shape.field(name)[1]) if name in obj else value


def _value(current: Any, applied: Any, shape: ValueShape) -> Any:
    if isinstance(shape, Struct) and type(current) is dict and current:
        if type(applied) is dict:
            merge(current, applied, shape)
            return current
        if applied is None:
            return current  # A null claims the field but leaves what other managers set in it.
    elif isinstance(shape, ItemList) and type(current) is list and current:
        if type(applied) is list:
            # Compared as bytes, because in Python true equals 1.
            is_same = orjson.dumps(current) == orjson.dumps(applied)
            return current if is_same else _items(current, applied, shape)
        if applied is None:
            return current
    return applied


def _items(current: list[Any], applied: list[Any], shape: ItemList) -> list[Any]:
    """Merge two lists: items of `applied` in its order, the others at their previous positions among them."""
    current_items = shape.index(current)
    applied_items = {shape.element(item): item for item in applied}
    order = iter(applied_items)
    shared = iter([element for element in applied_items if element in current_items])
    next_shared = next(shared, None)
    merged: list[Any] = []
    for item in current:
        element = shape.element(item)
        if element not in applied_items:
            merged.append(item)
        elif element == next_shared:
            for placed in order:
                merged.append(_item(current_items.get(placed), applied_items[placed], shape))
                if placed == element:
                    break
            next_shared = next(shared, None)
        elif next_shared is None and (following := next(order, None)) is not None:
            # A duplicate of an item already placed makes room for the next item of the configuration.
            merged.append(_item(current_items.get(following), applied_items[following], shape))
    return merged + [_item(current_items.get(placed), applied_items[placed], shape) for placed in order]


def _item(current: list[Any] | None, applied: Any, shape: ItemList) -> Any:
    # Duplicates are ambiguous, so they are replaced.
    return _value(current[0], applied, shape.item) if current is not None and len(current) == 1 else applied
