"""Validates custom resources against their OpenAPI schema, with Kubernetes' error messages.

A schema is compiled into closures, each part when the first value for it is checked; a value of the right
type costs a dict lookup and a call per field. On an update, errors in unchanged parts are ignored
("ratcheting"), so that a stricter schema does not block updates of stored objects.

Steps that can multiply (alternatives under a long list) are counted, and the check stops at a limit.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from alcove.api.fields import FieldError, invalid, not_supported, required, too_many
from alcove.api.objects import Object
from alcove.api.schema.error_sink import MISSING, NOWHERE, Check, ErrorSink, TooCostly, identical, wrong_type
from alcove.api.schema.scalars import number_checks, string_checks

Schema = dict[str, Any]
Values = Callable[[Any, Any], Sequence[FieldError]]
"""(value, old value or MISSING) → errors."""

_NAMES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}
_KINDS: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}


def compile_values(schema: Schema) -> Values:
    """Return a function that checks values under `schema`."""
    check = _compile(schema)

    def errors(value: Any, old: Any = MISSING) -> Sequence[FieldError]:
        sink = ErrorSink()
        try:
            check(value, old, "", sink)
        except (TooCostly, RecursionError):
            return [
                invalid(NOWHERE, "", "the object is too large for its schema: checking it takes too long")
            ]
        return sink

    return errors


def _compile(schema: Schema) -> Check:
    checks = _checks_by_type(schema)
    if schema.get("nullable"):
        checks[type(None)] = _enum_checks(schema)

    def check(value: Any, old: Any, path: str, sink: ErrorSink) -> None:
        for step in checks[type(value)]:
            step(value, old, path, sink)

    return check


def _checks_by_type(schema: Schema) -> dict[type, tuple[Check, ...]]:
    """Return the checks for values of each JSON type; a type that is not allowed is reported first."""
    composites = _composite_checks(schema)
    enums = _enum_checks(schema)
    numbers = number_checks(schema)
    checks_by_kind: dict[type, Iterable[Check]] = {
        bool: (),
        int: numbers,
        float: numbers,
        str: string_checks(schema),
        list: _list_checks(schema),
        dict: (),
        type(None): (),
    }
    objects = _object_checks(schema)
    wrong = _wrong_type_check(schema)
    results: dict[type, tuple[Check, ...]] = {}
    for kind, particular in checks_by_kind.items():
        checks = (*composites, *particular, *enums, *(objects if kind is dict else ()))
        if kind is type(None):
            checks = enums
        results[kind] = checks if _allows(schema, kind) else (wrong, *checks)
    if _allows(schema, int) and not _allows(schema, float):
        results[float] = (_whole_number_check(wrong), *results[float][1:])
    return results


def _types(schema: Schema) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    type_name = schema.get("type")
    return (type_name,) if type_name else ()


def _allows(schema: Schema, kind: type) -> bool:
    types = _types(schema)
    return not types or any(kind in _KINDS.get(name, ()) for name in types)


def _wrong_type_check(schema: Schema) -> Check:
    expected, format = ",".join(_types(schema)), schema.get("format", "")

    def check(value: Any, _old: Any, path: str, sink: ErrorSink) -> None:
        actual = _NAMES[type(value)]
        if format and actual not in ("string", "array", "null") and expected in ("integer", "number"):
            formats = {"integer": "int64", "number": "float64"}
            sink.append(wrong_type(path, format, formats.get(actual, "")))
        else:
            sink.append(wrong_type(path, expected, actual))

    return check


def _whole_number_check(wrong: Check) -> Check:
    """Integers may be written as `1.0`."""

    def check(value: Any, old: Any, path: str, sink: ErrorSink) -> None:
        if not value.is_integer():
            wrong(value, old, path, sink)

    return check


def _enum_checks(schema: Schema) -> tuple[Check, ...]:
    choices = schema.get("enum")
    if not choices:
        return ()
    texts = frozenset(choice for choice in choices if type(choice) is str)
    others = [choice for choice in choices if type(choice) is not str]
    shown = [choice if type(choice) is str else _json(choice) for choice in choices]

    def check(value: Any, _old: Any, path: str, sink: ErrorSink) -> None:
        if value in texts if type(value) is str else any(identical(value, choice) for choice in others):
            return
        sink.append(not_supported(path, value, shown))

    return (check,)


def _json(value: Any) -> str:
    import orjson

    return orjson.dumps(value).decode()


# Lists and objects.


def _list_checks(schema: Schema) -> tuple[Check, ...]:
    steps: list[Check] = []
    items = schema.get("items")
    if isinstance(items, dict):
        steps.append(_items_check(schema, items))
    minimum, maximum = schema.get("minItems"), schema.get("maxItems")
    if minimum is not None:

        def at_least(value: Any, _old: Any, path: str, sink: ErrorSink) -> None:
            if len(value) < minimum:
                sink.append(invalid(path, len(value), f"{path} in body should have at least {minimum} items"))

        steps.append(at_least)
    if maximum is not None:

        def at_most(value: Any, _old: Any, path: str, sink: ErrorSink) -> None:
            if len(value) > maximum:
                sink.append(too_many(path, len(value), maximum))

        steps.append(at_most)
    return tuple(steps)


def _items_check(schema: Schema, items: Schema) -> Check:
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    keyed = schema.get("x-kubernetes-list-type") == "map" and bool(keys)
    cost, item = cost_of(items), None

    def check(value: Any, old: Any, path: str, sink: ErrorSink) -> None:
        nonlocal item
        if item is None:
            item = _compile(items)
        sink.spend(len(value) * cost)
        before = _by_key(old, keys) if keyed and isinstance(old, list) else None
        for index, each in enumerate(value):
            old_value = MISSING
            if before is not None and isinstance(each, dict):
                old_value = before.get(_key(each, keys), MISSING)
            count = len(sink)
            item(each, old_value, f"{path}[{index}]", sink)
            if len(sink) > count and old_value is not MISSING and identical(each, old_value):
                del sink[count:]

    return check


def _by_key(items: list[Any], keys: Sequence[str]) -> dict[str, Any]:
    return {_key(item, keys): item for item in items if isinstance(item, dict)}


def _key(item: Object, keys: Sequence[str]) -> str:
    return repr([item.get(key) for key in keys])


def _object_checks(schema: Schema) -> tuple[Check, ...]:
    steps: list[Check] = [*_count_checks(schema)]
    properties, values = schema.get("properties") or {}, schema.get("additionalProperties")
    if values is False:
        steps.append(_no_others_check(frozenset(properties)))
    if properties or isinstance(values, dict):
        steps.append(_fields_check(_Fields(properties, values), cost_of(values) if values else 0))
    names = tuple(schema.get("required") or ())
    if names:
        steps.append(_required_check(names))
    return tuple(steps)


class _Fields(dict[str, Check | None]):
    """Checks of an object's fields, each compiled on first use."""

    def __init__(self, properties: Schema, values: Any) -> None:
        super().__init__()
        self._properties = properties
        self._values = values if isinstance(values, dict) else None
        self._other: Check | None = None

    def __missing__(self, name: str) -> Check | None:
        part = self._properties.get(name)
        if part is not None:
            self[name] = check = _compile(part)
            return check
        if self._other is None and self._values is not None:
            self._other = _compile(self._values)
        return self._other  # Not cached by name: a map's keys are unbounded.


def _fields_check(fields: _Fields, cost: int) -> Check:
    def check(value: Any, old: Any, path: str, sink: ErrorSink) -> None:
        before = old if type(old) is dict else None
        prefix = f"{path}." if path else ""
        sink.spend(len(value) * cost)
        for name, part in value.items():
            step = fields[name]
            if step is None:
                continue
            old_value = before.get(name, MISSING) if before is not None else MISSING
            count = len(sink)
            step(part, old_value, prefix + name, sink)
            if len(sink) > count and old_value is not MISSING and identical(part, old_value):
                del sink[count:]

    return check


def _required_check(names: tuple[str, ...]) -> Check:
    def check(value: Any, _old: Any, path: str, sink: ErrorSink) -> None:
        for name in names:
            if name not in value:
                sink.append(required(f"{path}.{name}" if path else name))

    return check


def _no_others_check(declared: frozenset[str]) -> Check:
    def check(value: Any, _old: Any, path: str, sink: ErrorSink) -> None:
        for name in value:
            if name not in declared:
                sink.append(invalid(path, name, f"{path}.{name} in body is a forbidden property"))

    return check


def _count_checks(schema: Schema) -> Iterable[Check]:
    minimum, maximum = schema.get("minProperties"), schema.get("maxProperties")
    if minimum is not None:

        def at_least(value: Any, _old: Any, path: str, sink: ErrorSink) -> None:
            if len(value) < minimum:
                message = f"{path} in body should have at least {minimum} properties"
                sink.append(invalid(path, len(value), message))

        yield at_least
    if maximum is not None:

        def at_most(value: Any, _old: Any, path: str, sink: ErrorSink) -> None:
            if len(value) > maximum:
                sink.append(too_many(path, len(value), maximum))

        yield at_most


# Alternatives.


def _composite_checks(schema: Schema) -> tuple[Check, ...]:
    steps: list[Check] = []
    for keyword, make in (("anyOf", _any_check), ("oneOf", _one_check), ("allOf", _all_check)):
        parts = schema.get(keyword)
        if parts:
            steps.append(make([_compile(part) for part in parts], sum(map(cost_of, parts))))
    if schema.get("not"):
        steps.append(_not_check(_compile(schema["not"]), cost_of(schema["not"])))
    return tuple(steps)


def _try(check: Check, value: Any, path: str, sink: ErrorSink) -> ErrorSink:
    results = sink.aside()
    check(value, MISSING, path, results)
    return results


def _any_check(parts: list[Check], cost: int) -> Check:
    def check(value: Any, _old: Any, path: str, sink: ErrorSink) -> None:
        sink.spend(cost)
        best: ErrorSink | None = None
        for part in parts:
            results = _try(part, value, path, sink)
            if not results:
                return
            if best is None or len(results) < len(best):
                best = results
        sink.append(invalid(NOWHERE, "", f'"{path}" must validate at least one schema (anyOf)'))
        sink.extend(best or ())

    return check


def _one_check(parts: list[Check], cost: int) -> Check:
    def check(value: Any, _old: Any, path: str, sink: ErrorSink) -> None:
        sink.spend(cost)
        results = [_try(part, value, path, sink) for part in parts]
        good = sum(1 for errors in results if not errors)
        if good == 1:
            return
        message = "Found none valid" if good == 0 else f"Found {good} valid alternatives"
        sink.append(
            invalid(NOWHERE, "", f'"{path}" must validate one and only one schema (oneOf). {message}')
        )
        if good == 0:
            sink.extend(sorted(results, key=len)[0])

    return check


def _all_check(parts: list[Check], cost: int) -> Check:
    def check(value: Any, _old: Any, path: str, sink: ErrorSink) -> None:
        sink.spend(cost)
        results = [_try(part, value, path, sink) for part in parts]
        bad = [errors for errors in results if errors]
        if not bad:
            return
        for errors in bad:
            sink.extend(errors)
        none = ". None validated" if len(bad) == len(parts) else ""
        sink.append(invalid(NOWHERE, "", f'"{path}" must validate all the schemas (allOf){none}'))

    return check


def _not_check(part: Check, cost: int) -> Check:
    def check(value: Any, _old: Any, path: str, sink: ErrorSink) -> None:
        sink.spend(cost)
        if not _try(part, value, path, sink):
            sink.append(invalid(NOWHERE, "", f'"{path}" must not validate the schema (not)'))

    return check


def cost_of(schema: Any) -> int:
    """Return the cost of checking one value, without the values inside it."""
    if not isinstance(schema, dict):
        return 0
    parts = [part for keyword in ("anyOf", "oneOf", "allOf") for part in schema.get(keyword) or ()]
    if schema.get("not"):
        parts.append(schema["not"])
    return 1 + len(schema.get("required") or ()) // 10 + sum(map(cost_of, parts))
