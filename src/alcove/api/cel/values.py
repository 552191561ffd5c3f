"""Values at run time. Most are plain Python: int, float, str, bytes, bool, None, list, dict.

Defined here are those that Python has no type for: unsigned integers, optionals, and lists that a schema
declares to be sets or maps. Timestamps and durations are in `times.py`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from alcove.api.cel.errors import CelError
from alcove.api.cel.times import Duration, Timestamp
from alcove.api.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    A,
    CelType,
    list_of,
    map_of,
    optional_of,
)

NO_SUCH_OVERLOAD = "no such overload"


class Uint(int):
    __slots__ = ()


class Opaque:
    """Base class of values that only their library's functions can use. `cel_type` is their type."""

    __slots__ = ()
    cel_type: CelType = DYN


class Optional(Opaque):
    __slots__ = ("present", "value")
    cel_type = optional_of(DYN)

    def __init__(self, value: Any, present: bool = True) -> None:
        self.value = value
        self.present = present

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Optional) or self.present is not other.present:
            return False
        return not self.present or equal(self.value, other.value)

    __hash__ = None  # type: ignore[assignment]


ABSENT = Optional(None, present=False)


class CelSetList(list[Any]):
    """A list with `x-kubernetes-list-type: set`: order is ignored, `+` is a union."""

    __slots__ = ()


class MapList(list[Any]):
    """A list with `x-kubernetes-list-type: map`: items are identified by `keys`, `+` merges by them."""

    __slots__ = ("keys",)

    def __init__(self, items: Sequence[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def key_of(self, item: Any) -> tuple[Hashable, ...]:
        if not isinstance(item, dict):
            raise CelError(NO_SUCH_OVERLOAD)
        return tuple(freeze(item.get(key)) for key in self.keys)


_TYPES: dict[type, CelType] = {
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
    Timestamp: TIMESTAMP,
    Duration: DURATION,
    CelType: TYPE,
}
_LIST, _MAP = list_of(A), map_of(A, A)


def type_of(value: Any) -> CelType:
    cel_type = _TYPES.get(type(value))
    if cel_type is not None:
        return cel_type
    if isinstance(value, list):
        return _LIST
    if isinstance(value, dict):
        return _MAP
    return value.cel_type if isinstance(value, Opaque) else DYN


_PLAIN = frozenset({str, int, Uint, float, bytes, bool, Timestamp, Duration})
_NUMBERS = frozenset({int, Uint, float})


def equal(one: Any, other: Any) -> bool:
    """CEL's `==`: numbers compare across types, all other values only with their own type."""
    kind, other_kind = type(one), type(other)
    if kind is other_kind and kind in _PLAIN:
        return bool(one == other)
    if kind in _NUMBERS:
        return other_kind in _NUMBERS and bool(one == other)
    if isinstance(one, list):
        return isinstance(other, list) and _equal_lists(one, other)
    if isinstance(one, dict):
        return isinstance(other, dict) and _equal_maps(one, other)
    if kind is CelType:
        return other_kind is CelType and one.kind is other.kind and one.name == other.name
    return kind is other_kind and bool(one == other)


def _equal_lists(one: list[Any], other: list[Any]) -> bool:
    if len(one) != len(other):
        return False
    if type(one) is list and type(other) is list:
        return all(map(equal, one, other))
    if isinstance(one, MapList) or isinstance(other, MapList):
        keyed = one if isinstance(one, MapList) else other
        assert isinstance(keyed, MapList)
        by_key = {keyed.key_of(item): item for item in other}
        return all((key := keyed.key_of(item)) in by_key and equal(item, by_key[key]) for item in one)
    return set(map(freeze, one)) == set(map(freeze, other))


def _equal_maps(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    if len(one) != len(other):
        return False
    return all(key in other and equal(value, other[key]) for key, value in one.items())


def contains(items: list[Any], value: Any) -> bool:
    if type(value) is str:
        return value in items
    return any(equal(item, value) for item in items)


def freeze(value: Any) -> Hashable:
    """Return a hashable value that is equal for equal values, for use in sets."""
    kind = type(value)
    if kind is str:
        return value  # type: ignore[no-any-return]
    if kind in _NUMBERS:
        return ("number", value)
    if isinstance(value, CelSetList):
        return ("list", frozenset(map(freeze, value)))
    if isinstance(value, list):
        return ("list", tuple(map(freeze, value)))
    if isinstance(value, dict):
        return ("map", frozenset((key, freeze(each)) for key, each in value.items()))
    if isinstance(value, Optional):
        return ("optional", value.present, freeze(value.value))
    return (kind, value)


_ORDERED = frozenset({str, bytes, bool, Timestamp, Duration})


def require_order(one: Any, other: Any) -> None:
    """Raise CelError if the two values have no order."""
    kind, other_kind = type(one), type(other)
    if kind is other_kind and kind in _ORDERED:
        return
    if kind not in _NUMBERS or other_kind not in _NUMBERS:
        raise CelError(NO_SUCH_OVERLOAD)


def compare(one: Any, other: Any) -> int:
    """Return -1, 0 or 1. Raises CelError if there is no order."""
    require_order(one, other)
    if one < other:
        return -1
    return 1 if one > other else 0


WEIGHT_MAX = 1_000_001
"""More than any expression may spend, so `weight` counts no further."""


def weight(value: Any) -> int:
    """Return the cost of traversing all of `value`, up to WEIGHT_MAX.

    The bound matters: a value built as `[x, x]` repeatedly shares its parts, and is far larger to traverse
    than to store.
    """
    total = 0
    pending = [value]
    while pending and total < WEIGHT_MAX:
        current = pending.pop()
        if isinstance(current, str | bytes):
            total += 1 + len(current) // 10
        elif isinstance(current, list):
            total += 1 + len(current)
            pending.extend(current)
        elif isinstance(current, dict):
            total += 1 + len(current)
            pending.extend(current.values())
        else:
            total += 1
    return total
