"""Operators on values (arithmetic, comparison, indexing), with CEL's errors."""

import math
from collections.abc import Callable
from typing import Any

from alcove.api.cel.errors import CelError
from alcove.api.cel.lexer import INT_MAX, INT_MIN, UINT_MAX
from alcove.api.cel.times import Duration, Timestamp
from alcove.api.cel.values import (
    ABSENT,
    NO_SUCH_OVERLOAD,
    CelSetList,
    MapList,
    Optional,
    Uint,
    contains,
    freeze,
    type_of,
)


def to_int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise CelError("integer overflow")


def to_uint(value: int) -> Uint:
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise CelError("unsigned integer overflow")


def add(one: Any, other: Any) -> Any:
    kind, other_kind = type(one), type(other)
    if kind is other_kind:
        if kind is str or kind is float or kind is bytes:
            return one + other
        if kind is int:
            return to_int(one + other)
        if kind is Uint:
            return to_uint(int(one) + int(other))
        if kind is Duration:
            return Duration(one.nanos + other.nanos)
    if isinstance(one, list) and isinstance(other, list):
        return concat(one, other)
    if (kind is Timestamp and other_kind is Duration) or (kind is Duration and other_kind is Timestamp):
        return Timestamp(one.nanos + other.nanos)
    raise CelError(NO_SUCH_OVERLOAD)


def concat(one: list[Any], other: list[Any]) -> list[Any]:
    """Concatenate lists; a set adds only new items, a map list replaces items by key."""
    if isinstance(one, CelSetList):
        known = set(map(freeze, one))
        united = CelSetList(one)
        for item in other:
            if (frozen := freeze(item)) not in known:
                known.add(frozen)
                united.append(item)
        return united
    if isinstance(one, MapList):
        merged = {one.key_of(item): item for item in one}
        merged.update((one.key_of(item), item) for item in other)
        return MapList(list(merged.values()), one.keys)
    return [*one, *other]


def subtract(one: Any, other: Any) -> Any:
    kind, other_kind = type(one), type(other)
    if kind is other_kind:
        if kind is int:
            return to_int(one - other)
        if kind is float:
            return one - other
        if kind is Uint:
            return to_uint(int(one) - int(other))
        if kind is Duration or kind is Timestamp:
            return Duration(one.nanos - other.nanos)
    if kind is Timestamp and other_kind is Duration:
        return Timestamp(one.nanos - other.nanos)
    raise CelError(NO_SUCH_OVERLOAD)


def multiply(one: Any, other: Any) -> Any:
    kind = _same_number(one, other)
    if kind is float:
        return one * other
    return to_int(one * other) if kind is int else to_uint(int(one) * int(other))


def divide(one: Any, other: Any) -> Any:
    kind = _same_number(one, other)
    if kind is float:
        return _divide_floats(one, other)
    if other == 0:
        raise CelError("division by zero")
    quotient = abs(int(one)) // abs(int(other))
    if kind is Uint:
        return Uint(quotient)
    return to_int(quotient if (one < 0) == (other < 0) else -quotient)


def _divide_floats(one: float, other: float) -> float:
    if other != 0:
        return one / other
    if one == 0 or math.isnan(one):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1.0, other)


def modulo(one: Any, other: Any) -> Any:
    kind = _same_number(one, other)
    if kind is float:
        raise CelError(NO_SUCH_OVERLOAD)
    if other == 0:
        raise CelError("modulus by zero")
    rest = abs(int(one)) % abs(int(other))
    return Uint(rest) if kind is Uint else (-rest if one < 0 else rest)


def _same_number(one: Any, other: Any) -> type:
    kind = type(one)
    if kind is type(other) and kind in (int, float, Uint):
        return kind
    raise CelError(NO_SUCH_OVERLOAD)


def negate(value: Any) -> Any:
    if type(value) is int:
        return to_int(-value)
    if type(value) is float:
        return -value
    raise CelError(NO_SUCH_OVERLOAD)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": modulo,
}


def show(value: Any) -> str:
    """Format a value for an error message."""
    return "true" if value is True else "false" if value is False else str(value)


def index(container: Any, key: Any) -> Any:
    if isinstance(container, dict):
        found = lookup(container, key)
        if found is ABSENT:
            raise CelError(f"no such key: {show(key)}")
        return found
    if isinstance(container, list):
        return container[position(container, key)]
    if isinstance(container, Optional):
        return optional_index(container, key)
    raise CelError(NO_SUCH_OVERLOAD)


def optional_index(container: Any, key: Any) -> Optional:
    """`container[?key]`: an empty optional where plain indexing would fail."""
    if isinstance(container, Optional):
        return optional_index(container.value, key) if container.present else ABSENT
    if isinstance(container, dict):
        found = lookup(container, key)
        return ABSENT if found is ABSENT else Optional(found)
    if isinstance(container, list):
        whole = _whole(key)
        return Optional(container[whole]) if whole is not None and 0 <= whole < len(container) else ABSENT
    raise CelError(NO_SUCH_OVERLOAD)


def lookup(container: dict[Any, Any], key: Any) -> Any:
    """Return the value under `key`, or ABSENT. 1, 1u and 1.0 are the same key; `true` is not 1."""
    if type(key) is str or type(key) is int:
        return container.get(key, ABSENT)
    if type(key) is bool:
        return next((value for known, value in container.items() if known is key), ABSENT)
    if type(key) is Uint or (type(key) is float and key.is_integer()):
        return container.get(int(key), ABSENT)
    if type(key) is float:
        return ABSENT
    raise CelError(NO_SUCH_OVERLOAD if type(key) is not dict else f"unsupported key type: {type_of(key)}")


def position(container: list[Any], key: Any) -> int:
    whole = _whole(key)
    if whole is None:
        raise CelError(f"unsupported index type '{type_of(key)}' in list")
    if not 0 <= whole < len(container):
        raise CelError(f"index out of bounds: {whole}")
    return whole


def _whole(key: Any) -> int | None:
    if type(key) is int or type(key) is Uint:
        return int(key)
    return int(key) if type(key) is float and key.is_integer() else None


def is_in(value: Any, container: Any) -> bool:
    if isinstance(container, list):
        return contains(container, value)
    if isinstance(container, dict):
        return lookup(container, value) is not ABSENT
    raise CelError(NO_SUCH_OVERLOAD)
