"""Checks that a value is a schema: every keyword has a value of the right type, and nesting is bounded.

Decoding checks this for most of a CRD, but `items` and `additionalProperties` may have several types and are
decoded unchecked. All later checks rely on this one.
"""

from collections.abc import Callable
from typing import Any

from alcove.api.fields import FieldError, forbidden, type_invalid

LEVELS_MAX = 100
"""Maximum nesting of schemas."""

FieldErrors = list[FieldError]
_Test = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


_KEYWORDS: dict[str, tuple[_Test, str]] = {}
for _names, _test, _description in (
    (
        "type format title description pattern $ref id x-kubernetes-list-type x-kubernetes-map-type",
        _is_text,
        "a string",
    ),
    (
        "nullable uniqueItems exclusiveMaximum exclusiveMinimum x-kubernetes-preserve-unknown-fields "
        "x-kubernetes-embedded-resource x-kubernetes-int-or-string",
        _is_flag,
        "a boolean",
    ),
    ("maximum minimum multipleOf", _is_number, "a number"),
    ("maxLength minLength maxItems minItems maxProperties minProperties", _is_count, "an integer"),
    ("required x-kubernetes-list-map-keys", _is_texts, "a list of strings"),
    ("enum", lambda value: isinstance(value, list), "a list"),
):
    _KEYWORDS.update(dict.fromkeys(_names.split(), (_test, _description)))

_RULE: dict[str, tuple[_Test, str]] = {
    **dict.fromkeys(("rule", "message", "messageExpression", "reason", "fieldPath"), (_is_text, "a string")),
    "optionalOldSelf": (_is_flag, "a boolean"),
}


def form_errors(schema: Any, path: str) -> FieldErrors:
    errors: FieldErrors = []
    _check(schema, path, 0, errors)
    return errors


def _wrong(path: str, value: Any, message: str) -> FieldError:
    return type_invalid(path, value, f"must be {message}")


def _check(schema: Any, path: str, level: int, errors: FieldErrors) -> None:
    if not isinstance(schema, dict):
        errors.append(_wrong(path, schema, "a schema"))
        return
    if level > LEVELS_MAX:
        errors.append(forbidden(path, f"must not be nested in more than {LEVELS_MAX} schemas"))
        return
    for keyword, value in schema.items():
        keyword_check = _KEYWORDS.get(keyword)
        if keyword_check is not None and value is not None and not keyword_check[0](value):
            errors.append(_wrong(f"{path}.{keyword}", value, keyword_check[1]))
    _check_parts(schema, path, level + 1, errors)
    _check_rules(schema.get("x-kubernetes-validations"), f"{path}.x-kubernetes-validations", errors)


def _check_parts(schema: dict[str, Any], path: str, level: int, errors: FieldErrors) -> None:
    properties = schema.get("properties")
    if properties is not None and not isinstance(properties, dict):
        errors.append(_wrong(f"{path}.properties", properties, "a map of schemas"))
    elif properties:
        for name, part in properties.items():
            _check(part, f"{path}.properties[{name}]", level, errors)
    for keyword in ("allOf", "anyOf", "oneOf"):
        parts = schema.get(keyword)
        if parts is not None and not isinstance(parts, list):
            errors.append(_wrong(f"{path}.{keyword}", parts, "a list of schemas"))
        for index, part in enumerate(parts if isinstance(parts, list) else ()):
            _check(part, f"{path}.{keyword}[{index}]", level, errors)
    if schema.get("not") is not None:
        _check(schema["not"], f"{path}.not", level, errors)
    items, values = schema.get("items"), schema.get("additionalProperties")
    if items is not None and not isinstance(items, list):  # a list is rejected elsewhere
        _check(items, f"{path}.items", level, errors)
    if values is not None and not isinstance(values, bool):
        _check(values, f"{path}.additionalProperties", level, errors)


def _check_rules(rules: Any, path: str, errors: FieldErrors) -> None:
    if rules is None:
        return
    if not isinstance(rules, list):
        errors.append(_wrong(path, rules, "a list of rules"))
        return
    for index, rule in enumerate(rules):
        if not isinstance(rule, dict):
            errors.append(_wrong(f"{path}[{index}]", rule, "a rule"))
            continue
        for field, (test, message) in _RULE.items():
            if rule.get(field) is not None and not test(rule[field]):
                errors.append(_wrong(f"{path}[{index}].{field}", rule[field], message))
