"""What claims, classes and slices say of devices: names of attributes, selectors, settings, sets."""

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from alcove.api import names
from alcove.api.fields import FieldError, duplicate, invalid, required, too_long, too_many
from alcove.api.kinds.checks import named, one_of, one_of_required
from alcove.api.kinds.core.volumesources import check_csi_driver
from alcove.api.objects import Object

SELECTORS_MAX = 32
CONFIGS_MAX = 32
EXPRESSION_LENGTH_MAX_BYTES = 10 * 1024
PARAMETERS_LENGTH_MAX_BYTES = 10 * 1024
IDENTIFIER_LENGTH_MAX_BYTES = 32
EFFECTS = ("NoExecute", "NoSchedule", "None")

Check = Callable[[Any, str], list[FieldError]]


def each(items: Sequence[Any], most: int, check: Check, path: str) -> list[FieldError]:
    """Checks every item of a bounded list; of a list too long, only that it is."""
    if len(items) > most:
        return [too_many(path, len(items), most)]
    return [fault for index, item in enumerate(items) for fault in check(item, f"{path}[{index}]")]


def each_named(items: Sequence[Object], most: int, check: Check, path: str) -> list[FieldError]:
    """The same, of items whose names must differ."""
    faults = each(items, most, check, path)
    if len(items) > most:
        return faults
    return faults + repeated([item.get("name", "") for item in items], path)


def repeated(keys: Sequence[Any], path: str) -> list[FieldError]:
    seen: set[Any] = set()
    faults: list[FieldError] = []
    for index, key in enumerate(keys):
        if key in seen:
            faults.append(duplicate(f"{path}[{index}]", key))
        seen.add(key)
    return faults


def driver_name(value: str, path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    check_csi_driver(value, path, faults)
    return faults


def qualified_name(name: str, path: str) -> list[FieldError]:
    """`model`, or `example.com/model`."""
    domain, slash, rest = name.rpartition("/")
    if not slash:
        return _identifier(name, path)
    faults = driver_name(domain, path) if domain else [invalid(path, "", "the domain must not be empty")]
    return faults + (_identifier(rest, path) if rest else [invalid(path, "", "the name must not be empty")])


def full_name(name: str, path: str) -> list[FieldError]:
    faults = qualified_name(name, path)
    if "/" not in name:
        message = "a fully qualified name must be a domain and a name separated by a slash"
        faults.append(invalid(path, name, message))
    return faults


def _identifier(text: str, path: str) -> list[FieldError]:
    long = len(text.encode()) > IDENTIFIER_LENGTH_MAX_BYTES
    faults = [too_long(path, IDENTIFIER_LENGTH_MAX_BYTES)] if long else []
    return faults + named(text, names.c_identifier, path)


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
    """Settings for a driver, which it alone understands."""
    opaque = config.get("opaque")
    if opaque is None:
        return [required(f"{path}.opaque")]
    faults = driver_name(opaque.get("driver", ""), f"{path}.opaque.driver")
    parameters, where = opaque.get("parameters"), f"{path}.opaque.parameters"
    if parameters is None:
        faults.append(required(where))
    elif not isinstance(parameters, dict):
        faults.append(invalid(where, "<value omitted>", "must be a valid JSON object"))
    elif len(orjson.dumps(parameters)) > PARAMETERS_LENGTH_MAX_BYTES:
        faults.append(too_long(where, PARAMETERS_LENGTH_MAX_BYTES))
    return faults


def validate_taint(taint: Object, path: str) -> list[FieldError]:
    faults = named(taint.get("key", ""), names.label_key, f"{path}.key")
    faults += named(taint.get("value", ""), names.label_value, f"{path}.value")
    return faults + one_of_required(taint.get("effect", ""), EFFECTS, f"{path}.effect")


def validate_toleration(toleration: Object, path: str) -> list[FieldError]:
    operator, value = toleration.get("operator", ""), toleration.get("value", "")
    faults: list[FieldError] = []
    if toleration.get("key"):
        faults += named(toleration["key"], names.label_key, f"{path}.key")
    if operator == "Exists" and value:
        faults.append(invalid(f"{path}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        faults += named(value, names.label_value, f"{path}.value")
    faults += one_of_required(operator, ("Equal", "Exists"), f"{path}.operator")
    if toleration.get("effect"):
        faults += one_of(toleration["effect"], EFFECTS, f"{path}.effect")
    return faults
