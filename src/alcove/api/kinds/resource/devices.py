"""DeviceClasses, and what they share with claims and slices: names, selectors, configuration, taints."""

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from alcove.api import names
from alcove.api.fields import FieldError, duplicate, invalid, required, too_long, too_many
from alcove.api.kind import Strategy
from alcove.api.kinds.checks import named, one_of, one_of_required
from alcove.api.kinds.core.resources import is_extended
from alcove.api.kinds.core.volumesources import check_csi_driver
from alcove.api.objects import Object

SELECTORS_MAX = 32
CONFIGS_MAX = 32
EXPRESSION_LENGTH_MAX_BYTES = 10 * 1024
PARAMETERS_LENGTH_MAX_BYTES = 10 * 1024
IDENTIFIER_LENGTH_MAX_BYTES = 32
EFFECTS = ("NoExecute", "NoSchedule", "None")

Check = Callable[[Any, str], list[FieldError]]


def each(items: Sequence[Any], maximum: int, check: Check, path: str) -> list[FieldError]:
    """Check every item of a bounded list; for a list that is too long, only its length."""
    if len(items) > maximum:
        return [too_many(path, len(items), maximum)]
    return [error for index, item in enumerate(items) for error in check(item, f"{path}[{index}]")]


def each_named(items: Sequence[Object], maximum: int, check: Check, path: str) -> list[FieldError]:
    """Check items like `each`, and that their names are unique."""
    errors = each(items, maximum, check, path)
    if len(items) > maximum:
        return errors
    return errors + repeated([item.get("name", "") for item in items], path)


def repeated(keys: Sequence[Any], path: str) -> list[FieldError]:
    seen: set[Any] = set()
    errors: list[FieldError] = []
    for index, key in enumerate(keys):
        if key in seen:
            errors.append(duplicate(f"{path}[{index}]", key))
        seen.add(key)
    return errors


def driver_name(value: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    check_csi_driver(value, path, errors)
    return errors


def qualified_name(name: str, path: str) -> list[FieldError]:
    """Check `model`, or `example.com/model`."""
    domain, slash, rest = name.rpartition("/")
    if not slash:
        return _identifier(name, path)
    errors = driver_name(domain, path) if domain else [invalid(path, "", "the domain must not be empty")]
    return errors + (_identifier(rest, path) if rest else [invalid(path, "", "the name must not be empty")])


def full_name(name: str, path: str) -> list[FieldError]:
    errors = qualified_name(name, path)
    if "/" not in name:
        message = "a fully qualified name must be a domain and a name separated by a slash"
        errors.append(invalid(path, name, message))
    return errors


def _identifier(text: str, path: str) -> list[FieldError]:
    long = len(text.encode()) > IDENTIFIER_LENGTH_MAX_BYTES
    errors = [too_long(path, IDENTIFIER_LENGTH_MAX_BYTES)] if long else []
    return errors + named(text, names.c_identifier, path)


def validate_selectors(selectors: Sequence[Object], path: str) -> list[FieldError]:
    return each(selectors, SELECTORS_MAX, _selector, path)


def _selector(selector: Object, path: str) -> list[FieldError]:
    cel = selector.get("cel")
    if cel is None:
        return [required(f"{path}.cel")]
    expression = cel.get("expression", "")
    if not expression:
        return [required(f"{path}.cel.expression")]
    if len(expression.encode()) > EXPRESSION_LENGTH_MAX_BYTES:
        return [too_long(f"{path}.cel.expression", EXPRESSION_LENGTH_MAX_BYTES)]
    return []


def validate_config(config: Object, path: str) -> list[FieldError]:
    """Check opaque configuration for a driver."""
    opaque = config.get("opaque")
    if opaque is None:
        return [required(f"{path}.opaque")]
    errors = driver_name(opaque.get("driver", ""), f"{path}.opaque.driver")
    parameters, where = opaque.get("parameters"), f"{path}.opaque.parameters"
    if parameters is None:
        errors.append(required(where))
    elif not isinstance(parameters, dict):
        errors.append(invalid(where, "<value omitted>", "must be a valid JSON object"))
    elif len(orjson.dumps(parameters)) > PARAMETERS_LENGTH_MAX_BYTES:
        errors.append(too_long(where, PARAMETERS_LENGTH_MAX_BYTES))
    return errors


def validate_taint(taint: Object, path: str) -> list[FieldError]:
    errors = named(taint.get("key", ""), names.label_key, f"{path}.key")
    errors += named(taint.get("value", ""), names.label_value, f"{path}.value")
    return errors + one_of_required(taint.get("effect", ""), EFFECTS, f"{path}.effect")


def validate_toleration(toleration: Object, path: str) -> list[FieldError]:
    operator, value = toleration.get("operator", ""), toleration.get("value", "")
    errors: list[FieldError] = []
    if toleration.get("key"):
        errors += named(toleration["key"], names.label_key, f"{path}.key")
    if operator == "Exists" and value:
        errors.append(invalid(f"{path}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        errors += named(value, names.label_value, f"{path}.value")
    errors += one_of_required(operator, ("Equal", "Exists"), f"{path}.operator")
    if toleration.get("effect"):
        errors += one_of(toleration["effect"], EFFECTS, f"{path}.effect")
    return errors


def validate_class(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = validate_selectors(spec.get("selectors") or (), "spec.selectors")
    errors += each(spec.get("config") or (), CONFIGS_MAX, validate_config, "spec.config")
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        message = "must be a valid extended resource name"
        errors.append(invalid("spec.extendedResourceName", name, message))
    return errors


STRATEGIES: dict[str, Strategy] = {
    "deviceclasses": Strategy(validate=validate_class, counts_generation=True),
}
