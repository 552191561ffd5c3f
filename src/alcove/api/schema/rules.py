"""CEL rules of custom resources (`x-kubernetes-validations`): compiled once, evaluated on every write.

A rule reads the value it is attached to as `self`, and on updates the previous value as `oldSelf`. Importing
this module loads CEL, so it is imported only for schemas with rules (`openapi3.has_rules`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from alcove.api.cel.adapters import Adapter
from alcove.api.cel.budget import CALL_MOST, CostBudget
from alcove.api.cel.environment import CelEnvironment, Program
from alcove.api.cel.errors import CelError, CompileError, OutOfBudget
from alcove.api.cel.schema_types import read_adapter, schema_type
from alcove.api.cel.types import CelType, TypeKind, optional_of
from alcove.api.cel.values import ABSENT, NO_SUCH_OVERLOAD, Optional
from alcove.api.fields import FieldError, duplicate, forbidden, invalid, required
from alcove.api.schema.error_sink import MISSING, identical
from alcove.api.schema.fieldpaths import PathError, field_path

Schema = dict[str, Any]
FieldErrors = list[FieldError]

OBJECT_COST_MAX = 2_500_000
"""Cost units that all rules together may spend on one object. Kubernetes allows four times as much, on
several threads."""
MESSAGE_BYTES_MAX = 5 * 1024
_EXHAUSTED = "running out of cost budget, no further validation rules will be run"


class RuleError(Exception):
    """A rule does not compile. `field` names the invalid part of the rule."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class ValidationRule(Struct, frozen=True):
    text: str
    program: Program
    message: str
    message_program: Program | None
    reason: str
    field_path: str
    """Relative to the rule's schema node; empty: that node itself."""
    optional_old: bool

    @property
    def uses_old(self) -> bool:
        return "oldSelf" in self.program.uses

    @property
    def display_name(self) -> str:
        """The text that identifies the rule in errors."""
        return self.message or self.text


class RuleNode(Struct, frozen=True):
    """A schema node that has rules, or has descendants with rules."""

    rules: tuple[ValidationRule, ...]
    type: str
    adapt: Adapter | None
    properties: dict[str, RuleNode]
    values: RuleNode | None
    items: RuleNode | None
    list_keys: tuple[str, ...]
    """Key fields that identify items of a map list; empty if items cannot be correlated."""


# Compiling.


def self_type(schema: Schema, *, is_resource: bool) -> CelType:
    """Return the type of `self`. Raises RuleError."""
    cel_type = schema_type(schema, is_resource=is_resource)
    if cel_type is None:
        message = "internal error: failed to retrieve type information for x-kubernetes-validations"
        raise RuleError("", message)
    return cel_type


def compile_rule(rule_schema: Schema, schema: Schema, of: CelType) -> ValidationRule:
    """Compile one rule for values of the type `of`. Raises RuleError."""
    old = optional_of(of) if rule_schema.get("optionalOldSelf") else of
    environment = CelEnvironment({"self": of, "oldSelf": old})
    text = rule_schema.get("rule") or ""
    try:
        program = environment.compile(text)
    except CompileError as error:
        raise RuleError("rule", f"compilation failed: {error}") from error
    if program.result.kind is not TypeKind.BOOL:
        raise RuleError("rule", "cel expression must evaluate to a bool")
    path = rule_schema.get("fieldPath") or ""
    return ValidationRule(
        text=text.strip(),
        program=program,
        message=(rule_schema.get("message") or "").strip(),
        message_program=_compile_message(environment, rule_schema.get("messageExpression") or ""),
        reason=rule_schema.get("reason") or "",
        field_path=_relative(schema, path) if path else "",
        optional_old=bool(rule_schema.get("optionalOldSelf")),
    )


def _compile_message(environment: CelEnvironment, source: str) -> Program | None:
    if not source:
        return None
    try:
        program = environment.compile(source)
    except CompileError as error:
        raise RuleError("messageExpression", f"messageExpression compilation failed: {error}") from error
    if program.result.kind is not TypeKind.STRING:
        raise RuleError("messageExpression", "messageExpression must evaluate to a string")
    return program


def _relative(schema: Schema, path: str) -> str:
    try:
        return field_path(schema, path)
    except PathError as error:
        raise RuleError("fieldPath", "must be a valid path") from error


def compile_rules(schema: Schema, *, is_resource: bool = True) -> RuleNode | None:
    """Compile all rules of a schema that was accepted before; None if it has none."""
    rules = tuple(_accepted_rules(schema, is_resource))
    properties = {
        name: node
        for name, part in (schema.get("properties") or {}).items()
        if (node := _compile_part(part)) is not None
    }
    values, items = _compile_part(schema.get("additionalProperties")), _compile_part(schema.get("items"))
    if not rules and not properties and values is None and items is None:
        return None
    is_map_list = schema.get("x-kubernetes-list-type") == "map"
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if is_map_list else ()
    adapt = read_adapter(schema) if rules else None
    return RuleNode(rules, schema.get("type") or "", adapt, properties, values, items, keys)


def _compile_part(schema: Any) -> RuleNode | None:
    if not isinstance(schema, dict):
        return None
    return compile_rules(schema, is_resource=bool(schema.get("x-kubernetes-embedded-resource")))


def _accepted_rules(schema: Schema, is_resource: bool) -> Sequence[ValidationRule]:
    rules = schema.get("x-kubernetes-validations")
    if not rules:
        return ()
    of = self_type(schema, is_resource=is_resource)
    return [compile_rule(rule, schema, of) for rule in rules]


# Evaluating.


class _Anchor(Struct, frozen=True):
    """The nearest enclosing value that is correlated with an old value."""

    value: Any
    old: Any

    @property
    def is_unchanged(self) -> bool:
        return self.old is not MISSING and identical(self.value, self.old)


class _Stop(Exception):
    """Stops the evaluation of further rules for this object."""


def rule_faults(node: RuleNode, value: Any, old: Any = MISSING, path: str = "") -> FieldErrors:
    """Evaluate the rules for a valid value; `old` is MISSING for a new object."""
    run = _Run()
    try:
        run.visit(node, value, old, _Anchor(value, old), path)
    except _Stop:
        pass
    return run.errors


class _Run:
    def __init__(self) -> None:
        self.errors: FieldErrors = []
        self._remaining = OBJECT_COST_MAX

    def visit(self, node: RuleNode, value: Any, old: Any, anchor: _Anchor, path: str) -> None:
        if value is None:
            return
        if node.rules:
            self._evaluate(node, value, old, anchor, path)
        if isinstance(value, dict):
            self._visit_fields(node, value, old, anchor, path)
        elif isinstance(value, list) and node.items is not None:
            self._visit_items(node, node.items, value, old, anchor, path)

    def _visit_fields(self, node: RuleNode, value: Any, old: Any, anchor: _Anchor, path: str) -> None:
        before = old if isinstance(old, dict) else {}
        prefix = f"{path}." if path else ""
        for name, part in value.items():
            inner = node.properties.get(name, node.values)
            if inner is None:
                continue
            old_value = before.get(name, MISSING)
            where = f"{path}[{name}]" if inner is node.values else prefix + name
            following = anchor if old is MISSING else _Anchor(part, old_value)
            self.visit(inner, part, old_value, following, where)

    def _visit_items(
        self, node: RuleNode, items: RuleNode, value: Any, old: Any, anchor: _Anchor, path: str
    ) -> None:
        before: dict[str, Any] = {}
        if node.list_keys and isinstance(old, list):
            before = {_identity(node, item): item for item in old if isinstance(item, dict)}
        for index, item in enumerate(value):
            old_value = (
                before.get(_identity(node, item), MISSING) if before and isinstance(item, dict) else MISSING
            )
            following = anchor if old_value is MISSING else _Anchor(item, old_value)
            self.visit(items, item, old_value, following, f"{path}[{index}]")

    def _evaluate(self, node: RuleNode, value: Any, old: Any, anchor: _Anchor, path: str) -> None:
        try:
            now, before = _adapted(node, value), _adapted(node, old)
        except CelError as error:
            self.errors.append(invalid(path or "<nil>", node.type, str(error)))
            return
        for rule in node.rules:
            if rule.uses_old and before is MISSING and not rule.optional_old:
                continue
            self._apply(node, rule, (now, _old_for(rule, before)), anchor, path)

    def _apply(
        self, node: RuleNode, rule: ValidationRule, values: Sequence[Any], anchor: _Anchor, path: str
    ) -> None:
        where = path or "<nil>"
        try:
            if self._spend(rule.program, values) is True:
                return
        except OutOfBudget as error:
            message = f"validation failed due to {_EXHAUSTED}"
            if self._remaining > 0:
                message = (
                    f"'{error}': no further validation rules will be run due to call cost exceeds limit "
                    f"for rule: {rule.display_name}"
                )
            self.errors.append(invalid(where, node.type, message))
            raise _Stop from error
        except CelError as error:
            self.errors.append(invalid(where, node.type, _evaluation_message(error, rule)))
            return
        if rule.uses_old or not anchor.is_unchanged:
            self.errors.append(self._error(node, rule, values, path))

    def _spend(self, program: Program, values: Sequence[Any]) -> Any:
        """Evaluate within the smaller of the limit per call and the object's remaining budget."""
        granted = min(CALL_MOST, self._remaining)
        budget = CostBudget(granted)
        try:
            return program.evaluate(values, budget)
        finally:
            self._remaining -= granted - budget.left

    def _error(self, node: RuleNode, rule: ValidationRule, values: Sequence[Any], path: str) -> FieldError:
        where = path
        if rule.field_path:
            where = (
                f"{path}.{rule.field_path}" if path and rule.field_path[0] != "[" else path + rule.field_path
            )
        where = where or "<nil>"
        message = self._message(node, rule, values, where) or rule.message or f"failed rule: {rule.text}"
        match rule.reason:
            case "FieldValueForbidden":
                return forbidden(where, message)
            case "FieldValueRequired":
                return required(where, message)
            case "FieldValueDuplicate":
                return duplicate(where, node.type)
        return invalid(where, node.type, message)

    def _message(self, node: RuleNode, rule: ValidationRule, values: Sequence[Any], where: str) -> str:
        """Return the result of the message expression; empty if there is none or it fails."""
        if rule.message_program is None:
            return ""
        try:
            text = self._spend(rule.message_program, values)
        except OutOfBudget as error:
            message = f"messageExpression evaluation failed due to {_EXHAUSTED}"
            self.errors.append(invalid(where, node.type, message))
            raise _Stop from error
        except CelError:
            return ""
        text = text.strip() if isinstance(text, str) else ""
        return "" if "\n" in text or len(text.encode()) > MESSAGE_BYTES_MAX else text


def _adapted(node: RuleNode, value: Any) -> Any:
    if value is MISSING or value is None or node.adapt is None:
        return MISSING if value is None else value
    return node.adapt(value)


def _old_for(rule: ValidationRule, before: Any) -> Any:
    if rule.optional_old:
        return ABSENT if before is MISSING else Optional(before)
    return None if before is MISSING else before


def _identity(node: RuleNode, item: Any) -> str:
    return repr([item.get(key) for key in node.list_keys])


def _evaluation_message(error: CelError, rule: ValidationRule) -> str:
    if str(error).startswith(NO_SUCH_OVERLOAD):
        message = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{error}': {message}: {rule.display_name}"
    return f"{error} evaluating rule: {rule.display_name}"
