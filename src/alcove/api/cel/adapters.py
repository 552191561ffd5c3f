"""Conversion of JSON to CEL values, where the type says that they differ.

A field's value is adapted, not in depth, when it is read (see `schema_types`). Objects stay plain JSON; an
object is adapted in depth only when it is compared as a whole, by the functions here.
"""

from collections.abc import Callable
from typing import Any

from alcove.api.cel.types import CelType, TypeKind, is_optional
from alcove.api.cel.values import CelSetList, MapList, Optional

Adapter = Callable[[Any], Any]


def deep_adapter(of: CelType) -> Adapter | None:
    """Return a function that adapts a value of this type in depth; None if JSON needs no adapting."""
    if of.kind is TypeKind.OBJECT:
        return of.deep
    if of.kind is TypeKind.LIST:
        return each_item(deep_adapter(of.params[0]))
    if of.kind is TypeKind.MAP:
        return each_value(deep_adapter(of.params[1]))
    if is_optional(of):
        inner = deep_adapter(of.params[0])
        return (
            None if inner is None else lambda value: Optional(inner(value.value)) if value.present else value
        )
    return None


def each_item(adapt: Adapter | None) -> Adapter | None:
    """Return a function that adapts a list's items; the list stays a set or map list if it is one."""
    if adapt is None:
        return None

    def adapt_list(items: Any) -> Any:
        adapted = [adapt(item) for item in items]
        if isinstance(items, CelSetList):
            return CelSetList(adapted)
        return MapList(adapted, items.keys) if isinstance(items, MapList) else adapted

    return adapt_list


def each_value(adapt: Adapter | None) -> Adapter | None:
    if adapt is None:
        return None
    return lambda entries: {key: adapt(value) for key, value in entries.items()}
