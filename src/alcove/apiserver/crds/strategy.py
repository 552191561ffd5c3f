"""Defaults and validation of custom resources, built from one version of a CRD.

Everything is compiled on first use: most versions of most CRDs are never written to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import orjson

from alcove.api.fields import Fault, FieldError, invalid
from alcove.api.jsonpath import Find, JsonPathError, compile_path
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.objects import Object, get
from alcove.api.schema.error_sink import MISSING, NOWHERE
from alcove.api.schema.invariants import Branch, embedded_objects, errors_of, unique_lists
from alcove.api.schema.node import SchemaNode
from alcove.api.schema.openapi3 import has_rules
from alcove.api.schema.prune import apply_defaults
from alcove.api.schema.values import Values, compile_values

T = TypeVar("T")
Errors = list[FieldError]

_BLOCKING = frozenset(
    (Fault.NOT_SUPPORTED, Fault.REQUIRED, Fault.TOO_LONG, Fault.TOO_MANY, Fault.TYPE_INVALID)
)
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_INT32_MAX = 2**31 - 1


class _computed_once(Generic[T]):  # used as a decorator
    """Like `functools.cached_property`, which in Python 3.11 holds one lock for all instances: the event loop
    would wait while a thread compiles another tenant's schema."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__

    def __get__(self, instance: Any, owner: type) -> T:
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


def strategy_of(version: Object, node: SchemaNode, checks: CustomResourceChecks) -> Strategy:
    return Strategy(
        default=lambda obj: apply_defaults(node, obj),
        validate_create=checks.create,
        validate_update=checks.update,
        validate_status=checks.status,
        fields=_selectable(version),
        status_leaves=CLIENT_METADATA,
        has_status=get(version, "subresources", "status") is not None,
        counts_generation=True,
        unconditional_update=False,
    )


class CustomResourceChecks:
    """The validation of custom resources. Compiled on first use, or by `compile`, in any thread."""

    def __init__(self, version: Object, node: SchemaNode) -> None:
        self._schema: Object = get(version, "schema", "openAPIV3Schema", default={})
        self._scale: Object | None = get(version, "subresources", "scale")
        self._node = node
        self._has_rules = b'"x-kubernetes-validations"' in orjson.dumps(self._schema) and has_rules(
            self._schema
        )

    def compile(self) -> None:
        self._values, self._status_values, self._lists, self._embedded, self._rules  # noqa: B018

    @_computed_once
    def _values(self) -> Values:
        return compile_values(self._schema)

    @_computed_once
    def _status_values(self) -> Values:
        return compile_values(get(self._schema, "properties", "status", default={}))

    @_computed_once
    def _lists(self) -> Branch | None:
        return unique_lists(self._schema)

    @_computed_once
    def _embedded(self) -> Branch | None:
        return embedded_objects(self._schema)

    @_computed_once
    def _rules(self) -> Callable[[Object, Any], Errors]:
        if not self._has_rules:
            return lambda _obj, _old: []
        from alcove.api.schema.rules import compile_rules, rule_faults  # CEL is loaded where it is used

        node = compile_rules(self._schema)
        return (lambda obj, old: rule_faults(node, obj, old)) if node is not None else lambda _obj, _old: []

    def create(self, obj: Object) -> Sequence[FieldError]:
        errors = [*self._values(obj, MISSING), *self._scale_errors(obj, ("spec", "status"))]
        errors += errors_of(self._embedded, obj) + errors_of(self._lists, obj)
        return self._with_rules(errors, obj, MISSING)

    def update(self, new: Object, old: Object) -> Sequence[FieldError]:
        errors = [*self._values(new, old), *self._scale_errors(new, ("spec", "status"))]
        errors += errors_of(self._embedded, new) + self._list_errors(new, old)
        return self._with_rules(errors, new, old)

    def status(self, new: Object, old: Object) -> Sequence[FieldError]:
        errors: Errors = []
        if "status" in new:
            found = self._status_values(new["status"], old.get("status", MISSING))
            errors += [FieldError(error.fault, _under_status(error.field), error.body) for error in found]
        errors += self._scale_errors(new, ("status",)) + self._list_errors(new, old)
        return self._with_rules(errors, new, old)

    def _list_errors(self, new: Object, old: Object) -> Errors:
        """Errors of lists; none if the old object's lists were invalid too (ratcheting)."""
        errors = errors_of(self._lists, new)
        return [] if errors and errors_of(self._lists, old) else errors

    def _with_rules(self, errors: Errors, new: Object, old: Any) -> Errors:
        if not any(error.fault in _BLOCKING for error in errors):
            return errors + self._rules(new, old)
        return [*errors, invalid(NOWHERE, "null", _UNCHECKED)] if self._has_rules else errors

    def _scale_errors(self, obj: Object, parts: Sequence[str]) -> Errors:
        if self._scale is None:
            return []
        errors: Errors = []
        for part in parts:
            path = self._scale.get(f"{part}ReplicasPath") or ""
            _check_replicas(obj, path, errors)
        selector = self._scale.get("labelSelectorPath") or ""
        value = get(obj, *steps_of(selector)) if selector else None
        if "status" in parts and value is not None and not isinstance(value, str):
            message = (
                f"{selector} accessor error: {value} is of the type {type(value).__name__}, expected string"
            )
            errors.append(invalid(selector, "", message))
        return errors


def _under_status(field: str) -> str:
    return field if field == NOWHERE else f"status.{field}" if field else "status"


def steps_of(path: str) -> tuple[str, ...]:
    """The steps of a path such as `.spec.replicas`."""
    return tuple(step for step in path.split(".") if step)


def _check_replicas(obj: Object, path: str, errors: Errors) -> None:
    value = get(obj, *steps_of(path), default=0) if path else 0
    if not isinstance(value, int) or isinstance(value, bool):
        message = f"{path} accessor error: {value} is of the type {_go_type(value)}, expected int64"
        errors.append(invalid(path, 0, message))
    elif value < 0:
        errors.append(invalid(path, value, "should be a non-negative integer"))
    elif value > _INT32_MAX:
        errors.append(invalid(path, value, f"should be less than or equal to {_INT32_MAX}"))


_GO_TYPES: dict[type, str] = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}


def _go_type(value: Any) -> str:
    return _GO_TYPES.get(type(value), "<nil>")


def _selectable(version: Object) -> dict[str, Callable[[Object], str]]:
    readers: dict[str, Callable[[Object], str]] = {}
    for each in version.get("selectableFields") or ():
        path = each.get("jsonPath") or ""
        try:
            readers[path.removeprefix(".")] = _reader(compile_path(path))
        except JsonPathError:  # was accepted by an older server: it selects nothing
            continue
    return readers


def _reader(find: Find) -> Callable[[Object], str]:
    def read(obj: Object) -> str:
        values = find(obj)
        value = values[0] if values else None
        if value is None:
            return ""
        return ("true" if value else "false") if isinstance(value, bool) else str(value)

    return read
