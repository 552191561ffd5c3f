"""Turns a checked tree into closures: `step(frame) -> value`.

A frame is a list: the budget, then the variables, then slots for the variables of comprehensions. Static
types select the closure in advance, so that evaluation repeats no type tests: comparing two strings is one
Python comparison; reading `self.spec.replicas` is two dict lookups.

The fixed cost of all steps is summed while planning and spent in one go, at the start and per iteration of a
loop; costs that depend on sizes are spent where they arise.
"""

from collections.abc import Callable, Mapping
from typing import Any

from alcove.api.cel.ast import (
    AstNode,
    CallNode,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    StructLiteral,
)
from alcove.api.cel.budget import LIST_COST, MAP_COST, OBJECT_COST
from alcove.api.cel.calls import plan_call
from alcove.api.cel.errors import CelError
from alcove.api.cel.loops import plan_comprehension
from alcove.api.cel.operators import show
from alcove.api.cel.steps import Frame, Step
from alcove.api.cel.types import CelType, TypeKind, is_optional
from alcove.api.cel.values import ABSENT, NO_SUCH_OVERLOAD, Optional, Uint


class Planner:
    """Plans one expression. `cost` is the sum of the fixed costs of the steps planned so far."""

    def __init__(self, variables: Mapping[str, CelType]) -> None:
        self._slots = {name: slot for slot, name in enumerate(variables, start=1)}
        self.width = 1 + len(variables)
        """Number of slots that a frame needs."""
        self.cost = 0

    def plan(self, node: AstNode) -> Step:
        match node:
            case Literal():
                return _constant(node.value)
            case Ident():
                return self._ident(node)
            case Select():
                self.cost += 1
                if node.constant is not None:
                    return _constant(node.constant)
                return self._variable(node.variable) if node.variable else self._select(node)
            case CallNode():
                self.cost += 1
                return plan_call(self, node)
            case ListLiteral():
                self.cost += LIST_COST
                return self._list(node)
            case MapLiteral():
                self.cost += MAP_COST
                return self._map(node)
            case StructLiteral():
                self.cost += OBJECT_COST
                return self._struct(node)
            case Comprehension():
                return plan_comprehension(self, node)
        raise AssertionError(node)

    def plan_inner(self, node: AstNode) -> tuple[Step, int]:
        """Plan a step that runs separately from the surrounding ones (a loop's body); also returns its cost."""
        outer, self.cost = self.cost, 0
        step = self.plan(node)
        inner, self.cost = self.cost, outer
        return step, inner

    def bind(self, *names: str) -> tuple[tuple[int, ...], dict[str, int]]:
        """Allocate slots for new variables; returns them and the scope to pass to `restore`."""
        scope = self._slots
        slots = tuple(range(self.width, self.width + len(names)))
        self.width += len(names)
        self._slots = {**scope, **dict(zip(names, slots, strict=True))}
        return slots, scope

    def restore(self, scope: dict[str, int]) -> None:
        self._slots = scope

    def _ident(self, node: Ident) -> Step:
        if node.constant is not None:
            return _constant(node.constant)
        self.cost += 1
        return self._variable(node.name)

    def _variable(self, name: str) -> Step:
        slot = self._slots[name]
        return lambda frame: frame[slot]

    def _select(self, node: Select) -> Step:
        operand = self.plan(node.operand)
        held = node.operand.type
        if is_optional(held):
            return self._select_from_optional(node, operand, held.params[0])
        field = held.fields.get(node.field) if held.kind is TypeKind.OBJECT else None
        key, adapt = (field.key, field.adapt) if field else (node.field, None)
        if node.test:
            return _test(operand, key, typed=field is not None)
        if node.optional:
            return _select_optional(operand, key, adapt, typed=field is not None)
        return _select_field(operand, key, adapt) if field else _select_key(operand, key)

    def _select_from_optional(self, node: Select, operand: Step, held: CelType) -> Step:
        field = held.fields.get(node.field) if held.kind is TypeKind.OBJECT else None
        key, adapt = (field.key, field.adapt) if field else (node.field, None)
        inner = _select_optional(lambda frame: frame, key, adapt, typed=field is not None)
        test = node.test

        def select(frame: Frame) -> Any:
            value = operand(frame)
            found = inner(value.value) if value.present else ABSENT
            return found.present if test else found

        return select

    def _list(self, node: ListLiteral) -> Step:
        items = [self.plan(item) for item in node.items]
        if not node.optional:
            if all(isinstance(item, Literal) for item in node.items):
                constant = [item([]) for item in items]
                return lambda _frame: constant
            return lambda frame: [item(frame) for item in items]
        optional = [index in node.optional for index in range(len(items))]

        def build(frame: Frame) -> list[Any]:
            built: list[Any] = []
            for item, may_lack in zip(items, optional, strict=True):
                value = item(frame)
                if not may_lack:
                    built.append(value)
                elif _unwrapped(value).present:
                    built.append(value.value)
            return built

        return build

    def _map(self, node: MapLiteral) -> Step:
        entries = [(self.plan(entry.key), self.plan(entry.value), entry.optional) for entry in node.entries]

        def build(frame: Frame) -> dict[Any, Any]:
            built: dict[Any, Any] = {}
            for key_step, value_step, may_lack in entries:
                key, value = map_key(key_step(frame)), value_step(frame)
                if may_lack:
                    if not _unwrapped(value).present:
                        continue
                    value = value.value
                if key in built:
                    raise CelError(f"Failed with repeated key: {show(key)}")
                built[key] = value
            return built

        return build

    def _struct(self, node: StructLiteral) -> Step:
        constant = node.type
        fields = []
        for entry in node.entries:
            assert isinstance(entry.key, Literal)
            fields.append((constant.fields[entry.key.value].key, self.plan(entry.value), entry.optional))

        def build(frame: Frame) -> dict[str, Any]:
            built: dict[str, Any] = {}
            for key, step, may_lack in fields:
                value = step(frame)
                if may_lack:
                    if not _unwrapped(value).present:
                        continue
                    value = value.value
                built[key] = value
            return built

        return build


def _constant(value: Any) -> Step:
    return lambda _frame: value


def _unwrapped(value: Any) -> Optional:
    if not isinstance(value, Optional):
        raise CelError(f"cannot initialize optional entry from non-optional value {show(value)}")
    return value


def map_key(key: Any) -> Any:
    """Normalise a key for use in a dict: 1, 1u and 1.0 are the same key."""
    if type(key) in (str, int, bool):
        return key
    if type(key) is Uint or (type(key) is float and key.is_integer()):
        return int(key)
    raise CelError("unsupported key type")


def _select_field(operand: Step, key: str, adapt: Callable[[Any], Any] | None) -> Step:
    """Select a field that the type declares. Null is the same as absent."""
    if adapt is None:

        def select(frame: Frame) -> Any:
            held = operand(frame)
            value = held.get(key) if held is not None else None
            if value is None:
                raise CelError(f"no such key: {key}")
            return value

        return select

    def select_adapted(frame: Frame) -> Any:
        held = operand(frame)
        value = held.get(key) if held is not None else None
        if value is None:
            raise CelError(f"no such key: {key}")
        return adapt(value)

    return select_adapted


def _select_key(operand: Step, key: str) -> Step:
    def select(frame: Frame) -> Any:
        container = operand(frame)
        try:
            return container[key]
        except KeyError:
            raise CelError(f"no such key: {key}") from None
        except (TypeError, AttributeError):
            if isinstance(container, Optional):
                return _optional_key(container.value, key) if container.present else ABSENT
            raise CelError(NO_SUCH_OVERLOAD) from None

    return select


def _optional_key(container: Any, key: str) -> Optional:
    if not isinstance(container, dict):
        raise CelError(NO_SUCH_OVERLOAD)
    return Optional(container[key]) if key in container else ABSENT


def _select_optional(operand: Step, key: str, adapt: Callable[[Any], Any] | None, *, typed: bool) -> Step:
    def select(frame: Frame) -> Optional:
        container = operand(frame)
        if isinstance(container, Optional):
            if not container.present:
                return ABSENT
            container = container.value
        if typed:
            value = container.get(key) if container is not None else None
            return ABSENT if value is None else Optional(adapt(value) if adapt else value)
        return _optional_key(container, key)

    return select


def _test(operand: Step, key: str, *, typed: bool) -> Step:
    """Plan `has(operand.key)`."""
    if typed:

        def test_field(frame: Frame) -> bool:
            held = operand(frame)
            return held is not None and held.get(key) is not None

        return test_field

    def test(frame: Frame) -> bool:
        container = operand(frame)
        if isinstance(container, Optional):
            container = container.value if container.present else {}
        if not isinstance(container, dict):
            raise CelError(NO_SUCH_OVERLOAD)
        return key in container

    return test
