"""List functions: Kubernetes' own (isSorted, sum, min, …) and cel-go's extension (sort, slice, …)."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from alcove.api.cel.declarations import Library
from alcove.api.cel.errors import CelError
from alcove.api.cel.loops import sort
from alcove.api.cel.operators import add
from alcove.api.cel.times import Duration
from alcove.api.cel.types import BOOL, COMPARABLE, DOUBLE, DURATION, DYN, INT, UINT, A, list_of, optional_of
from alcove.api.cel.values import ABSENT, Optional, Uint, compare, contains, equal, freeze, weight

LISTS = Library()
_member = LISTS.member
_LIST = list_of(A)


def _walk(values: Any, *_rest: Any) -> int:
    return weight(values)


def _length(values: list[Any], *_rest: Any) -> int:
    return 10 + len(values)


def _is_sorted(values: list[Any]) -> bool:
    return all(compare(one, other) <= 0 for one, other in pairwise(values))


def _extreme(name: str, sign: int) -> Callable[[list[Any]], Any]:
    def find(values: list[Any]) -> Any:
        if not values:
            raise CelError(f"{name} called on empty list")
        best = values[0]
        for value in values[1:]:
            if compare(value, best) * sign > 0:
                best = value
        return best

    return find


for _of in COMPARABLE:
    _items = list_of(_of)
    _member("isSorted", (_items,), BOOL, cost=_walk)(_is_sorted)
    _member("min", (_items,), _of, cost=_walk)(_extreme("min", -1))
    _member("max", (_items,), _of, cost=_walk)(_extreme("max", 1))
    _member("sort", (_items,), _items, cost=lambda values: 10 + 2 * weight(values))(
        lambda values: sort(values, values)
    )


def _sum_from(zero: Any) -> Callable[[list[Any]], Any]:
    def total(values: list[Any]) -> Any:
        found = zero
        for value in values:
            found = add(found, value)
        return found

    return total


for _of, _zero in ((INT, 0), (UINT, Uint(0)), (DOUBLE, 0.0), (DURATION, Duration(0))):
    _member("sum", (list_of(_of),), _of, cost=_walk)(_sum_from(_zero))


@_member("indexOf", (_LIST, A), INT, cost=_walk)
def _index_of(values: list[Any], item: Any) -> int:
    return next((index for index, value in enumerate(values) if equal(value, item)), -1)


@_member("lastIndexOf", (_LIST, A), INT, cost=_walk)
def _last_index_of(values: list[Any], item: Any) -> int:
    return next((index for index in range(len(values) - 1, -1, -1) if equal(values[index], item)), -1)


@_member("includes", (DYN, DYN), BOOL, cost=_walk)
def _includes(values: Any, item: Any) -> bool:
    return contains(values, item) if isinstance(values, list) else equal(values, item)


@_member("slice", (_LIST, INT, INT), _LIST, cost=_length)
def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(values) < end:
        raise CelError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


@_member("flatten", (list_of(_LIST),), _LIST, cost=_walk)
@_member("flatten", (list_of(DYN), INT), list_of(DYN), cost=_walk)
def _flatten(values: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    flat: list[Any] = []
    for value in values:
        if isinstance(value, list) and depth > 0:
            flat.extend(_flatten(value, depth - 1) if depth > 1 else value)
        else:
            flat.append(value)
    return flat


@LISTS.function("lists.range", (INT,), list_of(INT), cost=lambda count: 10 + max(0, count))
def _range(count: int) -> list[int]:
    return list(range(count))


_member("reverse", (_LIST,), _LIST, cost=_length)(lambda values: values[::-1])


@_member("distinct", (_LIST,), _LIST, cost=_walk)
def _distinct(values: list[Any]) -> list[Any]:
    return list({freeze(value): value for value in reversed(values)}.values())[::-1]


_member("first", (_LIST,), optional_of(A))(lambda values: Optional(values[0]) if values else ABSENT)
_member("last", (_LIST,), optional_of(A))(lambda values: Optional(values[-1]) if values else ABSENT)
