"""Plans macros over lists and maps as plain loops. Each iteration spends the cost of the body."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from alcove.api.cel.ast import Comprehension, Macro
from alcove.api.cel.calls import truth
from alcove.api.cel.errors import CelError
from alcove.api.cel.operators import show
from alcove.api.cel.steps import Frame, Step
from alcove.api.cel.values import ABSENT, NO_SUCH_OVERLOAD, Optional, compare

if TYPE_CHECKING:
    from alcove.api.cel.planner import Planner

Rounds = Callable[[Frame], Iterable[None]]
"""Binds the variables to one element after the other, spending each iteration's cost first."""


def plan_comprehension(planner: Planner, node: Comprehension) -> Step:
    source = planner.plan(node.source)
    slots, scope = planner.bind(*node.variables)
    accept, accept_cost = planner.plan_inner(node.filter) if node.filter is not None else (None, 0)
    body, body_cost = planner.plan_inner(node.body)
    planner.restore(scope)
    if node.macro in (Macro.OPT_MAP, Macro.OPT_FLAT_MAP):
        planner.cost += body_cost
        return _optional_map(source, slots[0], body, flat=node.macro is Macro.OPT_FLAT_MAP)
    rounds = _rounds(source, slots, 2 + accept_cost + body_cost)
    match node.macro:
        case Macro.ALL:
            return _quantifier(rounds, body, decisive=False)
        case Macro.EXISTS:
            return _quantifier(rounds, body, decisive=True)
        case Macro.EXISTS_ONE:
            return lambda frame: sum(truth(body(frame)) for _ in rounds(frame)) == 1
        case Macro.FILTER:
            slot = slots[0]
            return lambda frame: [frame[slot] for _ in rounds(frame) if truth(body(frame))]
        case Macro.MAP | Macro.TRANSFORM_LIST:
            return _transform_list(rounds, accept, body)
        case Macro.TRANSFORM_MAP:
            return _transform_map(rounds, slots[0], accept, body)
        case Macro.TRANSFORM_MAP_ENTRY:
            return _transform_entries(rounds, accept, body)
        case _:
            return _sort_by(rounds, slots[0], body)


def _rounds(source: Step, slots: tuple[int, ...], cost: int) -> Rounds:
    if len(slots) == 1:
        (slot,) = slots

        def over(frame: Frame) -> Iterable[None]:
            values = source(frame)
            if not isinstance(values, list | dict):
                raise CelError(NO_SUCH_OVERLOAD)
            spend = frame[0].spend
            for frame[slot] in values:
                spend(cost)
                yield

        return over
    key_slot, value_slot = slots

    def over_pairs(frame: Frame) -> Iterable[None]:
        values = source(frame)
        if isinstance(values, list):
            pairs: Iterable[tuple[Any, Any]] = enumerate(values)
        elif isinstance(values, dict):
            pairs = values.items()
        else:
            raise CelError(NO_SUCH_OVERLOAD)
        spend = frame[0].spend
        for frame[key_slot], frame[value_slot] in pairs:
            spend(cost)
            yield

    return over_pairs


def _quantifier(rounds: Rounds, body: Step, *, decisive: bool) -> Step:
    """Plan `all` and `exists`: one deciding element is enough, even if another one fails."""

    def evaluate(frame: Frame) -> bool:
        failure: CelError | None = None
        for _ in rounds(frame):
            try:
                value = body(frame)
            except CelError as error:
                failure = failure or error
                continue
            if value is decisive:
                return value is True
            if value is not True and value is not False:
                failure = failure or CelError(NO_SUCH_OVERLOAD)
        if failure is not None:
            raise failure
        return not decisive

    return evaluate


def _transform_list(rounds: Rounds, accept: Step | None, body: Step) -> Step:
    if accept is None:
        return lambda frame: [body(frame) for _ in rounds(frame)]
    return lambda frame: [body(frame) for _ in rounds(frame) if truth(accept(frame))]


def _transform_map(rounds: Rounds, slot: int, accept: Step | None, body: Step) -> Step:
    def evaluate(frame: Frame) -> dict[Any, Any]:
        built: dict[Any, Any] = {}
        for _ in rounds(frame):
            if accept is None or truth(accept(frame)):
                built[frame[slot]] = body(frame)
        return built

    return evaluate


def _transform_entries(rounds: Rounds, accept: Step | None, body: Step) -> Step:
    def evaluate(frame: Frame) -> dict[Any, Any]:
        built: dict[Any, Any] = {}
        for _ in rounds(frame):
            if accept is not None and not truth(accept(frame)):
                continue
            for key, value in body(frame).items():
                if key in built:
                    raise CelError(f"insert failed: key {show(key)} already exists")
                built[key] = value
        return built

    return evaluate


class _Key:
    """Orders values for `sorted`."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Key) -> bool:
        if type(self.value) is not type(other.value):
            raise CelError("list elements must have the same type")
        return compare(self.value, other.value) < 0


def sort(values: list[Any], keys: list[Any]) -> list[Any]:
    """Return `values` in the order of their `keys`; the sort is stable."""
    kinds = set(map(type, keys))
    if kinds == {str} or kinds == {int}:
        order = sorted(range(len(values)), key=keys.__getitem__)
    else:
        order = sorted(range(len(values)), key=lambda index: _Key(keys[index]))
    return [values[index] for index in order]


def _sort_by(rounds: Rounds, slot: int, body: Step) -> Step:
    def evaluate(frame: Frame) -> list[Any]:
        values: list[Any] = []
        keys: list[Any] = []
        for _ in rounds(frame):
            values.append(frame[slot])
            keys.append(body(frame))
        frame[0].spend(len(values) * 2)
        return sort(values, keys)

    return evaluate


def _optional_map(source: Step, slot: int, body: Step, *, flat: bool) -> Step:
    def evaluate(frame: Frame) -> Any:
        value = source(frame)
        if not isinstance(value, Optional):
            raise CelError(NO_SUCH_OVERLOAD)
        if not value.present:
            return ABSENT
        frame[slot] = value.value
        found = body(frame)
        return found if flat else Optional(found)

    return evaluate
