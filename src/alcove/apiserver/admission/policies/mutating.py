"""MutatingAdmissionPolicy: applies a policy's JSON patches and apply configurations to one write."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from alcove.api.cel.types import DYN, STRING, CelType, TypeField, TypeKind, list_of
from alcove.api.cel.values import Optional, Uint, weight
from alcove.api.errors import ApiError, Invalid
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.patch import json as json_patch
from alcove.api.patch.apply import shape
from alcove.api.patch.apply.merge import merge
from alcove.apiserver.admission.policies.compiled import (
    ROUND_COST,
    Compiler,
    Conditions,
    EvaluationError,
    Expression,
    bind,
    evaluate,
)
from alcove.apiserver.admission.policies.variables import Activation

CHANGE_MOST = 200_000
"""Maximum size of a change, in values."""

JSON_PATCH = CelType(
    TypeKind.OBJECT,
    "JSONPatch",
    (),
    {
        "op": TypeField("op", STRING),
        "path": TypeField("path", STRING),
        "from": TypeField("from", STRING),
        "value": TypeField("value", DYN),
    },
)


class _AnyField(Mapping[str, TypeField]):
    """Fields of an object that an expression constructs: any name, of any type."""

    def __getitem__(self, name: str) -> TypeField:
        return TypeField(name, DYN)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class Structs(Mapping[str, CelType]):
    """The types that mutations may construct: `JSONPatch`, and `Object` with every type below it
    (`Object.spec`)."""

    def __init__(self) -> None:
        self._types: dict[str, CelType] = {"JSONPatch": JSON_PATCH, "Object": _object_type("Object")}

    def __getitem__(self, name: str) -> CelType:
        if name not in self._types:
            if not name.startswith("Object."):
                raise KeyError(name)
            self._types[name] = _object_type(name)
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)


def _object_type(name: str) -> CelType:
    return CelType(TypeKind.OBJECT, name, (), _AnyField())


class _Mutation(Struct, frozen=True):
    expression: Expression
    applies: bool
    """Whether it is an apply configuration; otherwise it is a list of JSON patch operations."""


class MutatingPolicy:
    """Compiled from `spec` only, so that policies with equal specs share it."""

    def __init__(self, spec: Object) -> None:
        structs = Structs()
        compiler = Compiler(
            has_params=spec.get("paramKind") is not None,
            variables=spec.get("variables") or (),
            structs=structs,
        )
        self._variables = compiler.variables
        conditions = spec.get("matchConditions") or ()
        self._conditions = Conditions(conditions, compiler) if conditions else None
        self.ignores_errors = spec.get("failurePolicy") == "Ignore"
        self.is_reinvoked = spec.get("reinvocationPolicy") == "IfNeeded"
        self._mutations = [_compile(each, compiler, structs) for each in spec.get("mutations") or ()]

    def change(self, activation: Activation, kind: Kind, obj: Object) -> Object:
        """The object as changed by the policy; `obj` is not modified. Raises EvaluationError."""
        activation.budget.left -= ROUND_COST
        bind(self._variables, activation)
        if self._conditions is not None and not self._conditions.hold(activation):
            return obj
        for mutation in self._mutations:
            value = evaluate(mutation.expression, activation)
            try:
                obj = _applied(obj, value, kind) if mutation.applies else _patched(obj, value)
            except ApiError as error:
                raise EvaluationError(error.message) from error
            activation.values[0] = obj
            bind(self._variables, activation)
        return obj


def _compile(mutation: Object, compiler: Compiler, structs: Structs) -> _Mutation:
    if mutation.get("patchType") == "ApplyConfiguration":
        source = (mutation.get("applyConfiguration") or {}).get("expression", "")
        return _Mutation(compiler.compile(source, (structs["Object"],)), True)
    source = (mutation.get("jsonPatch") or {}).get("expression", "")
    return _Mutation(compiler.compile(source, (list_of(JSON_PATCH),)), False)


def _patched(obj: Object, operations: Any) -> Object:
    """Apply a JSON patch, all or nothing; if a test fails, nothing is changed and no error is raised."""
    plain = _plain(operations)
    tests = [each for each in plain if isinstance(each, dict) and each.get("op") == "test"]
    try:
        return json_patch.apply(obj, plain)
    except Invalid:
        if tests and not _fails_without_tests(obj, plain):
            return obj
        raise


def _fails_without_tests(obj: Object, operations: list[Any]) -> bool:
    try:
        json_patch.apply(obj, [each for each in operations if each.get("op") != "test"])
    except ApiError:
        return True
    return False


def _applied(obj: Object, config: Any, kind: Kind) -> Object:
    changed = copy.deepcopy(obj)
    merge(changed, _plain(config), shape.root(kind.schema))
    return changed


def _plain(value: Any) -> Any:
    """The JSON of a CEL value. Raises EvaluationError."""
    if weight(value) > CHANGE_MOST:
        raise EvaluationError(f"the change is too large: more than {CHANGE_MOST} values")
    return _json(value)


def _json(value: Any) -> Any:
    match value:
        case None | bool() | str() | float():
            return value
        case Uint() | int():
            return int(value)
        case list():
            return [_json(each) for each in value]
        case dict():
            return {str(key): _json(each) for key, each in value.items()}
        case Optional():
            return _json(value.value) if value.present else None
    return str(value)
