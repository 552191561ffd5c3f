"""Whether the CEL rules in a CRD's schema can be accepted: they are whole, compile, and ask only for
old values that can be found."""

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
Faults = list[FieldError]

REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
TEXT_MOST = 100_000
"""Characters that all expressions of one schema may have: they take half a second to compile."""
_BREAK = re.compile(r"[\n\r]")
_KEYWORD = "x-kubernetes-validations"


def shape_faults(schema: Schema, path: str) -> Faults:
    """What is wrong with rules before anyone reads their expressions."""
    faults: Faults = []
    length = 0
    for place, where, _resource, _uncorrelatable in _places(schema, path):
        for index, rule in enumerate(place.get(_KEYWORD) or ()):
            length += len(rule.get("rule") or "") + len(rule.get("messageExpression") or "")
            _check_shape(rule, place, f"{where}.{_KEYWORD}[{index}]", faults)
    if length > TEXT_MOST:
        message = (
            f"expressions in x-kubernetes-validations must not have more than {TEXT_MOST} characters together"
        )
        faults.append(forbidden(path, message))
    return faults


def compile_faults(schema: Schema, path: str) -> Faults:
    """What is wrong with the expressions, in a schema that is otherwise right."""
    faults: Faults = []
    for place, where, is_resource, uncorrelatable in _places(schema, path):
        given = place.get(_KEYWORD)
        if not given:
            continue
        try:
            of = self_type(place, is_resource=is_resource)
        except RuleError as error:
            faults.append(internal(f"{where}.{_KEYWORD}", str(error)))
            continue
        for index, rule in enumerate(given):
            here = f"{where}.{_KEYWORD}[{index}]"
            try:
                _check_old(rule, compile_rule(rule, place, of), here, uncorrelatable, faults)
            except RuleError as error:
                faults.append(invalid(f"{here}.{error.field}", rule, str(error)))
    return faults


def default_rule_faults(schema: Schema, path: str) -> Faults:
    """Defaults that the rules at their own place, or below it, refuse."""
    faults: Faults = []
    rules = compile_rules(schema)
    pending = [(schema, rules, path)] if rules is not None else []
    while pending:
        place, compiled, where = pending.pop()
        default = place.get("default")
        if default is not None:
            here = f"{where}.default"
            faults += rule_faults(compiled, default, default, here) or rule_faults(
                compiled, default, MISSING, here
            )
        for part, step in _parts(place):
            inner = _rules_at(compiled, step)
            if inner is not None:
                pending.append((part, inner, where + step))
    return faults


def _rules_at(node: RuleNode, step: str) -> RuleNode | None:
    if step == ".items":
        return node.items
    if step == ".additionalProperties":
        return node.values
    return node.properties.get(step.removeprefix(".properties[")[:-1])


def _places(schema: Schema, path: str) -> list[tuple[Schema, str, bool, str]]:
    """Every place: (schema, path, whether a resource starts there, the path above which old and new
    values cannot be matched; empty if they can)."""
    found: list[tuple[Schema, str, bool, str]] = []
    pending: list[tuple[Schema, str, bool, str]] = [(schema, path, True, "")]
    while pending:
        place, where, is_resource, uncorrelatable = pending.pop()
        found.append((place, where, is_resource, uncorrelatable))
        for part, step in _parts(place):
            lost = uncorrelatable
            if step == ".items" and place.get("x-kubernetes-list-type") != "map":
                lost = lost or where
            pending.append((part, where + step, bool(part.get("x-kubernetes-embedded-resource")), lost))
    return found


def _parts(schema: Schema) -> list[tuple[Schema, str]]:
    parts = [(part, f".properties[{name}]") for name, part in (schema.get("properties") or {}).items()]
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            parts.append((schema[keyword], f".{keyword}"))
    return parts


def _check_shape(rule: Schema, schema: Schema, path: str, faults: Faults) -> None:
    text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
    if not text:
        faults.append(required(f"{path}.rule", "rule is not specified"))
    elif message and not message.strip():
        faults.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif _BREAK.search(message.strip()):
        faults.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    elif _BREAK.search(text) and not message.strip():
        faults.append(required(f"{path}.message", "message must be specified if rule contains line breaks"))
    expression = rule.get("messageExpression") or ""
    if expression and not expression.strip():
        told = "messageExpression must be non-empty if specified"
        faults.append(required(f"{path}.messageExpression", told))
    if rule.get("reason") is not None and rule["reason"] not in REASONS:
        faults.append(not_supported(f"{path}.reason", rule["reason"], REASONS))
    _check_path(rule.get("fieldPath") or "", schema, f"{path}.fieldPath", faults)


def _check_path(text: str, schema: Schema, path: str, faults: Faults) -> None:
    if not text:
        return
    if not text.strip():
        faults.append(invalid(path, text, "must be non-empty if specified"))
    if "\n" in text or "\r" in text:
        faults.append(invalid(path, text, "must not contain line breaks"))
    try:
        field_path(schema, text)
    except PathError:
        faults.append(invalid(path, text, "must be a valid path"))


def _check_old(given: Schema, rule: ValidationRule, path: str, uncorrelatable: str, faults: Faults) -> None:
    if rule.uses_old:
        if uncorrelatable:
            message = (
                f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
            )
            faults.append(invalid(f"{path}.rule", given["rule"], message))
    elif given.get("optionalOldSelf") is not None:
        message = "may not be set if oldSelf is not used in rule"
        faults.append(invalid(f"{path}.optionalOldSelf", given["optionalOldSelf"], message))
