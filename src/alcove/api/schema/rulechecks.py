"""Checks the CEL rules in a CRD's schema: complete, compilable, `oldSelf` only where it is available."""

import re
from typing import Any

from alcove.api.fields import FieldError, forbidden, internal, invalid, not_supported, required
from alcove.api.schema.error_sink import MISSING
from alcove.api.schema.fieldpaths import PathError, field_path
from alcove.api.schema.rules import (
    RuleError,
    RuleNode,
    ValidationRule,
    compile_rule,
    compile_rules,
    rule_faults,
    self_type,
)

Schema = dict[str, Any]
FieldErrors = list[FieldError]

REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
TEXT_MOST = 100_000
"""Maximum total length of all expressions of one schema: they take half a second to compile."""
_BREAK = re.compile(r"[\n\r]")
_KEYWORD = "x-kubernetes-validations"


def shape_errors(schema: Schema, path: str) -> FieldErrors:
    """Return the errors of rules that can be found without compiling their expressions."""
    errors: FieldErrors = []
    length = 0
    for schema_node, where, _resource, _uncorrelatable in _schema_nodes(schema, path):
        for index, rule in enumerate(schema_node.get(_KEYWORD) or ()):
            length += len(rule.get("rule") or "") + len(rule.get("messageExpression") or "")
            _check_shape(rule, schema_node, f"{where}.{_KEYWORD}[{index}]", errors)
    if length > TEXT_MOST:
        message = (
            f"expressions in x-kubernetes-validations must not have more than {TEXT_MOST} characters together"
        )
        errors.append(forbidden(path, message))
    return errors


def compile_errors(schema: Schema, path: str) -> FieldErrors:
    """Return the errors of the expressions, in a schema that is otherwise valid."""
    errors: FieldErrors = []
    for schema_node, where, is_resource, uncorrelatable in _schema_nodes(schema, path):
        rules = schema_node.get(_KEYWORD)
        if not rules:
            continue
        try:
            of = self_type(schema_node, is_resource=is_resource)
        except RuleError as error:
            errors.append(internal(f"{where}.{_KEYWORD}", str(error)))
            continue
        for index, rule in enumerate(rules):
            rule_path = f"{where}.{_KEYWORD}[{index}]"
            try:
                _check_old(rule, compile_rule(rule, schema_node, of), rule_path, uncorrelatable, errors)
            except RuleError as error:
                errors.append(invalid(f"{rule_path}.{error.field}", rule, str(error)))
    return errors


def default_rule_errors(schema: Schema, path: str) -> FieldErrors:
    """Return errors for defaults that are rejected by rules at or below their schema node."""
    errors: FieldErrors = []
    rules = compile_rules(schema)
    pending = [(schema, rules, path)] if rules is not None else []
    while pending:
        schema_node, compiled, where = pending.pop()
        default = schema_node.get("default")
        if default is not None:
            rule_path = f"{where}.default"
            errors += rule_faults(compiled, default, default, rule_path) or rule_faults(
                compiled, default, MISSING, rule_path
            )
        for part, step in _parts(schema_node):
            inner = _rules_at(compiled, step)
            if inner is not None:
                pending.append((part, inner, where + step))
    return errors


def _rules_at(node: RuleNode, step: str) -> RuleNode | None:
    if step == ".items":
        return node.items
    if step == ".additionalProperties":
        return node.values
    return node.properties.get(step.removeprefix(".properties[")[:-1])


def _schema_nodes(schema: Schema, path: str) -> list[tuple[Schema, str, bool, str]]:
    """Return every schema node as (schema, path, whether it is the root of a resource, the path from which on
    old and new values cannot be correlated; empty if they can)."""
    nodes: list[tuple[Schema, str, bool, str]] = []
    pending: list[tuple[Schema, str, bool, str]] = [(schema, path, True, "")]
    while pending:
        schema_node, where, is_resource, uncorrelatable = pending.pop()
        nodes.append((schema_node, where, is_resource, uncorrelatable))
        for part, step in _parts(schema_node):
            lost = uncorrelatable
            if step == ".items" and schema_node.get("x-kubernetes-list-type") != "map":
                lost = lost or where
            pending.append((part, where + step, bool(part.get("x-kubernetes-embedded-resource")), lost))
    return nodes


def _parts(schema: Schema) -> list[tuple[Schema, str]]:
    parts = [(part, f".properties[{name}]") for name, part in (schema.get("properties") or {}).items()]
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            parts.append((schema[keyword], f".{keyword}"))
    return parts


def _check_shape(rule: Schema, schema: Schema, path: str, errors: FieldErrors) -> None:
    text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
    if not text:
        errors.append(required(f"{path}.rule", "rule is not specified"))
    elif message and not message.strip():
        errors.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif _BREAK.search(message.strip()):
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    elif _BREAK.search(text) and not message.strip():
        errors.append(required(f"{path}.message", "message must be specified if rule contains line breaks"))
    expression = rule.get("messageExpression") or ""
    if expression and not expression.strip():
        message = "messageExpression must be non-empty if specified"
        errors.append(required(f"{path}.messageExpression", message))
    if rule.get("reason") is not None and rule["reason"] not in REASONS:
        errors.append(not_supported(f"{path}.reason", rule["reason"], REASONS))
    _check_path(rule.get("fieldPath") or "", schema, f"{path}.fieldPath", errors)


def _check_path(text: str, schema: Schema, path: str, errors: FieldErrors) -> None:
    if not text:
        return
    if not text.strip():
        errors.append(invalid(path, text, "must be non-empty if specified"))
    if "\n" in text or "\r" in text:
        errors.append(invalid(path, text, "must not contain line breaks"))
    try:
        field_path(schema, text)
    except PathError:
        errors.append(invalid(path, text, "must be a valid path"))


def _check_old(
    rule_schema: Schema, rule: ValidationRule, path: str, uncorrelatable: str, errors: FieldErrors
) -> None:
    if rule.uses_old:
        if uncorrelatable:
            message = (
                f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
            )
            errors.append(invalid(f"{path}.rule", rule_schema["rule"], message))
    elif rule_schema.get("optionalOldSelf") is not None:
        message = "may not be set if oldSelf is not used in rule"
        errors.append(invalid(f"{path}.optionalOldSelf", rule_schema["optionalOldSelf"], message))
