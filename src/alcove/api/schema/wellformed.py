"""Whether a value is a schema at all: every keyword holds what its name promises, nesting is bounded.

Decoding checks this for most of a CRD, but `items` and `additionalProperties` may hold several things
and are taken as they come. Everything after this may trust what it reads.
"""

from collections.abc import Callable
from typing import Any

from alcove.api.fields import FieldError, forbidden, type_invalid

LEVELS_MOST = 100
"""How deep schemas may nest in one another."""

Faults = list[FieldError]
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
for _names, _test, _told in (
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
    _KEYWORDS.update(dict.fromkeys(_names.split(), (_test, _told)))

_RULE: dict[str, tuple[_Test, str]] = {
    **dict.fromkeys(("rule", "message", "messageExpression", "reason", "fieldPath"), (_is_text, "a string")),
    "optionalOldSelf": (_is_flag, "a boolean"),
}


def form_faults(schema: Any, path: str) -> Faults:
    faults: Faults = []
    _check(schema, path, 0, faults)
    return faults


def _wrong(path: str, value: Any, message: str) -> FieldError:
    return type_invalid(path, value, f"must be {message}")


def _check(schema: Any, path: str, level: int, faults: Faults) -> None:
    if not isinstance(schema, dict):
        faults.append(_wrong(path, schema, "a schema"))
        return
    if level > LEVELS_MOST:
        faults.append(forbidden(path, f"must not be nested in more than {LEVELS_MOST} schemas"))
        return
    for keyword, value in schema.items():
        known = _KEYWORDS.get(keyword)
        if known is not None and value is not None and not known[0](value):
            faults.append(_wrong(f"{path}.{keyword}", value, known[1]))
    _check_parts(schema, path, level + 1, faults)
    _check_rules(schema.get("x-kubernetes-validations"), f"{path}.x-kubernetes-validations", faults)


def _check_parts(schema: dict[str, Any], path: str, level: int, faults: Faults) -> None:
    properties = schema.get("properties")
    if properties is not None and not isinstance(properties, dict):
        faults.append(_wrong(f"{path}.properties", properties, "a map of schemas"))
    elif properties:
        for name, part in properties.items():
            _check(part, f"{path}.properties[{name}]", level, faults)
    for keyword in ("allOf", "anyOf", "oneOf"):
        parts = schema.get(keyword)
        if parts is not None and not isinstance(parts, list):
            faults.append(_wrong(f"{path}.{keyword}", parts, "a list of schemas"))
        for index, part in enumerate(parts if isinstance(parts, list) else ()):
            _check(part, f"{path}.{keyword}[{index}]", level, faults)
    if schema.get("not") is not None:
        _check(schema["not"], f"{path}.not", level, faults)
    items, values = schema.get("items"), schema.get("additionalProperties")
    if items is not None and not isinstance(items, list):  # a list is refused with better words elsewhere
        _check(items, f"{path}.items", level, faults)
    if values is not None and not isinstance(values, bool):
        _check(values, f"{path}.additionalProperties", level, faults)


def _check_rules(rules: Any, path: str, faults: Faults) -> None:
    if rules is None:
        return
    if not isinstance(rules, list):
        faults.append(_wrong(path, rules, "a list of rules"))
        return
    for index, rule in enumerate(rules):
        if not isinstance(rule, dict):
            faults.append(_wrong(f"{path}[{index}]", rule, "a rule"))
            continue
        for field, (test, message) in _RULE.items():
            if rule.get(field) is not None and not test(rule[field]):
                faults.append(_wrong(f"{path}[{index}].{field}", rule[field], message))
