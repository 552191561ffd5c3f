"""Lists as sets: `sets.contains`, `sets.equivalent`, `sets.intersects`."""

from typing import Any

from alcove.api.cel.declarations import Library
from alcove.api.cel.types import BOOL, A, list_of
from alcove.api.cel.values import freeze, weight

SETS = Library()
_LIST = list_of(A)


def _cost(one: list[Any], other: list[Any]) -> int:
    return weight(one) + weight(other)


@SETS.function("sets.contains", (_LIST, _LIST), BOOL, cost=_cost)
def _contains(one: list[Any], other: list[Any]) -> bool:
    return set(map(freeze, one)).issuperset(map(freeze, other))


@SETS.function("sets.equivalent", (_LIST, _LIST), BOOL, cost=_cost)
def _equivalent(one: list[Any], other: list[Any]) -> bool:
    return set(map(freeze, one)) == set(map(freeze, other))


@SETS.function("sets.intersects", (_LIST, _LIST), BOOL, cost=_cost)
def _intersects(one: list[Any], other: list[Any]) -> bool:
    return not set(map(freeze, one)).isdisjoint(map(freeze, other))
