"""Plans calls: operators by the static types of their operands, functions by their overloads."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from alcove.api.cel import operators
from alcove.api.cel.adapters import deep_adapter
from alcove.api.cel.ast import AstNode, CallNode, ListLiteral, Literal
from alcove.api.cel.budget import text_cost
from alcove.api.cel.declarations import Overload
from alcove.api.cel.errors import CelError
from alcove.api.cel.library.regex import PATTERN_FUNCTIONS, compiled_literal
from alcove.api.cel.steps import Frame, Step
from alcove.api.cel.times import Duration, Timestamp
from alcove.api.cel.types import CelType, TypeKind
from alcove.api.cel.values import NO_SUCH_OVERLOAD, Opaque, Uint, equal, require_order, weight

if TYPE_CHECKING:
    from alcove.api.cel.planner import Planner

_LONG_TEXT = 64
"""Comparing texts up to this length costs nothing beyond the call."""
_FOLD_COST_MAX = 1_000
_COMPARES_WHOLE = frozenset(
    [
        "_==_",
        "_!=_",
        "@in",
        "indexOf",
        "lastIndexOf",
        "includes",
        "distinct",
        "dyn",
        "sets.contains",
        "sets.equivalent",
        "sets.intersects",
    ]
)
"""Functions that read inside objects, which therefore have to be adapted in depth."""


def plan_call(planner: Planner, node: CallNode) -> Step:
    match node.function:
        case "_&&_":
            return _plan_logical(planner, node, decisive=False)
        case "_||_":
            return _plan_logical(planner, node, decisive=True)
        case "_?_:_":
            return _plan_conditional(planner, node)
    nodes = [node.target, *node.args] if node.target is not None else node.args
    steps = [_plan_argument(planner, node.function, arg) for arg in nodes]
    types = [arg.type for arg in nodes]
    planned = _plan_operator(node, steps, types)
    return planned or _plan_function(node, nodes, steps, types)


def _plan_argument(planner: Planner, function: str, node: AstNode) -> Step:
    step = planner.plan(node)
    adapt = deep_adapter(node.type) if function in _COMPARES_WHOLE else None
    if adapt is None:
        return step

    def adapted(frame: Frame) -> Any:
        value = step(frame)
        frame[0].spend(weight(value))
        return adapt(value)

    return adapted


# Control.


def truth(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise CelError(NO_SUCH_OVERLOAD)


def _plan_logical(planner: Planner, node: CallNode, *, decisive: bool) -> Step:
    """Plan `&&` and `||`: one deciding operand is enough, even if another one fails."""
    terms = [planner.plan(arg) for arg in node.args]

    def evaluate(frame: Frame) -> bool:
        failure: CelError | None = None
        for term in terms:
            try:
                value = term(frame)
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


def _plan_conditional(planner: Planner, node: CallNode) -> Step:
    test, chosen, otherwise = (planner.plan(arg) for arg in node.args)
    return lambda frame: chosen(frame) if truth(test(frame)) else otherwise(frame)


# Operators.

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
}
_NUMBERS = (TypeKind.INT, TypeKind.UINT, TypeKind.DOUBLE)
_FIXED_SIZE = (
    TypeKind.INT,
    TypeKind.UINT,
    TypeKind.DOUBLE,
    TypeKind.BOOL,
    TypeKind.TIMESTAMP,
    TypeKind.DURATION,
)
_TEXTS = (TypeKind.STRING, TypeKind.BYTES)


def _plan_operator(node: CallNode, steps: list[Step], types: list[CelType]) -> Step | None:
    function = node.function
    if function in ("_==_", "_!=_"):
        return _plan_equality(steps, types, negated=function == "_!=_")
    if function in _ORDERS:
        return _plan_order(function, steps, types)
    if function in operators.ARITHMETIC:
        return _plan_arithmetic(function, steps, types)
    match function:
        case "!_":
            (operand,) = steps
            return lambda frame: not truth(operand(frame))
        case "-_":
            (operand,) = steps
            return lambda frame: operators.negate(operand(frame))
        case "_[_]":
            container, key = steps
            return lambda frame: operators.index(container(frame), key(frame))
        case "_[?_]":
            container, key = steps
            return lambda frame: operators.optional_index(container(frame), key(frame))
        case "@in":
            return _plan_in(node, steps)
    return None


def _plan_equality(steps: list[Step], types: list[CelType], *, negated: bool) -> Step:
    left, right = steps
    kinds = {each.kind for each in types}
    if kinds <= set(_NUMBERS) or (len(kinds) == 1 and kinds <= set(_FIXED_SIZE)):
        if negated:
            return lambda frame: left(frame) != right(frame)
        return lambda frame: left(frame) == right(frame)
    if len(kinds) == 1 and kinds <= set(_TEXTS):

        def equal_texts(frame: Frame) -> bool:
            one, other = left(frame), right(frame)
            if len(one) > _LONG_TEXT:
                frame[0].spend(text_cost(min(len(one), len(other))))
            return (one == other) is not negated

        return equal_texts

    def equal_any(frame: Frame) -> bool:
        one, other = left(frame), right(frame)
        if isinstance(one, str | list | dict | bytes):
            frame[0].spend(weight(one))
        return equal(one, other) is not negated

    return equal_any


def _plan_order(function: str, steps: list[Step], types: list[CelType]) -> Step:
    left, right = steps
    test = _ORDERS[function]
    kinds = {each.kind for each in types}
    if kinds <= set(_NUMBERS) or (len(kinds) == 1 and kinds <= set(_FIXED_SIZE)):
        return lambda frame: test(left(frame), right(frame))

    def order(frame: Frame) -> bool:
        one, other = left(frame), right(frame)
        require_order(one, other)
        if type(one) in (str, bytes) and len(one) > _LONG_TEXT:
            frame[0].spend(text_cost(min(len(one), len(other))))
        return test(one, other)

    return order


def _plan_arithmetic(function: str, steps: list[Step], types: list[CelType]) -> Step:
    left, right = steps
    apply = operators.ARITHMETIC[function]
    if function == "_+_" and not all(each.kind in _FIXED_SIZE for each in types):

        def add(frame: Frame) -> Any:
            one, other = left(frame), right(frame)
            if isinstance(one, str | bytes):
                frame[0].spend(text_cost(len(one) + (len(other) if isinstance(other, str | bytes) else 0)))
            elif isinstance(one, list):
                plain = type(one) is list and isinstance(other, list)
                frame[0].spend(text_cost(len(one) + len(other)) if plain else weight([one, other]))
            return operators.add(one, other)

        return add
    return lambda frame: apply(left(frame), right(frame))


def _plan_in(node: CallNode, steps: list[Step]) -> Step:
    item_step, container = steps
    choices = node.args[1]
    if isinstance(choices, ListLiteral) and all(
        isinstance(item, Literal) and type(item.value) is str for item in choices.items
    ):
        strings = frozenset(item.value for item in choices.items if isinstance(item, Literal))

        def is_choice(frame: Frame) -> bool:
            value = item_step(frame)
            return type(value) is str and value in strings

        return is_choice

    def is_in(frame: Frame) -> bool:
        value, values = item_step(frame), container(frame)
        if isinstance(values, list):
            frame[0].spend(weight(values) if isinstance(value, dict | list) else len(values))
        return operators.is_in(value, values)

    return is_in


# Functions.


def _plan_function(node: CallNode, nodes: list[AstNode], steps: list[Step], types: list[CelType]) -> Step:
    overloads = node.overloads
    if node.function in PATTERN_FUNCTIONS and isinstance(nodes[1], Literal) and type(nodes[1].value) is str:
        compiled = compiled_literal(nodes[1].value)
        steps = [steps[0], lambda _frame: compiled, *steps[2:]]
    if len(overloads) == 1 and not any(_is_loose(arg_type) for arg_type in types):
        planned = _plan_overload(overloads[0], steps)
        return _folded(overloads[0], nodes, planned)
    return _plan_dispatch(overloads, steps)


def _is_loose(of: CelType) -> bool:
    return of.kind in (TypeKind.DYN, TypeKind.NULL) or any(map(_is_loose, of.params))


def _folded(overload: Overload, nodes: Sequence[AstNode], planned: Step) -> Step:
    """Return a constant step, evaluated now, if the arguments are literals and the call is cheap."""
    values = [arg.value for arg in nodes if isinstance(arg, Literal)]
    if len(values) != len(nodes) or (overload.cost is not None and overload.cost(*values) > _FOLD_COST_MAX):
        return planned
    try:
        value = overload.call(*values)
    except CelError:
        return planned
    return lambda _frame: value


def _plan_overload(overload: Overload, steps: list[Step]) -> Step:
    call, cost = overload.call, overload.cost
    if cost is not None:

        def run(frame: Frame) -> Any:
            values = [step(frame) for step in steps]
            frame[0].spend(cost(*values))
            return call(*values)

        return run
    if len(steps) == 1:
        (only,) = steps
        return lambda frame: call(only(frame))
    if len(steps) == 2:
        first, second = steps
        return lambda frame: call(first(frame), second(frame))
    return lambda frame: call(*[step(frame) for step in steps])


_PYTHON: dict[TypeKind, type] = {
    TypeKind.BOOL: bool,
    TypeKind.INT: int,
    TypeKind.UINT: Uint,
    TypeKind.DOUBLE: float,
    TypeKind.STRING: str,
    TypeKind.BYTES: bytes,
    TypeKind.TIMESTAMP: Timestamp,
    TypeKind.DURATION: Duration,
    TypeKind.TYPE: CelType,
    TypeKind.NULL: type(None),
}


def _accepts(param: CelType, value: Any) -> bool:
    match param.kind:
        case TypeKind.DYN | TypeKind.PARAM:
            return True
        case TypeKind.LIST:
            return isinstance(value, list) and (not value or _accepts(param.params[0], value[0]))
        case TypeKind.MAP | TypeKind.OBJECT:
            return isinstance(value, dict)
        case TypeKind.STRING:
            return isinstance(value, str)
        case TypeKind.OPAQUE:
            return isinstance(value, Opaque) and value.cel_type.name == param.name
    return type(value) is _PYTHON[param.kind]


def _plan_dispatch(overloads: Sequence[Overload], steps: list[Step]) -> Step:
    """Select the overload by the values' types, and cache the choice where the types determine it."""
    chosen: dict[tuple[type, ...], Overload] = {}

    def dispatch(frame: Frame) -> Any:
        values = [step(frame) for step in steps]
        types = tuple(map(type, values))
        overload = chosen.get(types)
        if overload is None:
            overload = _choose(overloads, values)
            if not any(map(_looks_inside, overload.params)):
                chosen[types] = overload
        try:
            if overload.cost is not None:
                frame[0].spend(overload.cost(*values))
            return overload.call(*values)
        except (TypeError, AttributeError):  # A list's later items have another type than its first.
            raise CelError(NO_SUCH_OVERLOAD) from None

    return dispatch


def _choose(overloads: Sequence[Overload], values: list[Any]) -> Overload:
    for overload in overloads:
        if all(map(_accepts, overload.params, values)):
            return overload
    raise CelError(NO_SUCH_OVERLOAD)


def _looks_inside(param: CelType) -> bool:
    """Whether `_accepts` needs more than the value's Python type."""
    return param.kind is TypeKind.LIST and param.params[0].kind not in (TypeKind.DYN, TypeKind.PARAM)
