"""Rules for custom resources beyond OpenAPI: lists declared as sets or maps have no duplicates, and embedded
objects are complete.

Only the branches of a schema that declare such rules are walked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson
from msgspec import Struct

from alcove.api import names
from alcove.api.fields import FieldError, duplicate, invalid, required
from alcove.api.kinds.metadata import validate_metadata
from alcove.api.objects import Object

Schema = dict[str, Any]
FieldErrors = list[FieldError]
Rule = Callable[[Any, str, FieldErrors], None]


class Branch(Struct, frozen=True):
    """A schema node that has rules, or has descendants with rules."""

    rules: tuple[Rule, ...]
    properties: dict[str, Branch]
    values: Branch | None
    items: Branch | None


def unique_lists(schema: Schema) -> Branch | None:
    """Return the branches where `schema` declares lists to be sets or maps; None if there are none."""
    return _grow(schema, _list_rules)


def embedded_objects(schema: Schema) -> Branch | None:
    """Return the branches where `schema` embeds API objects; None if there are none. Excludes the root."""
    return _grow(schema, _embedded_rules)


def _grow(schema: Schema, rules_of: Callable[[Schema], tuple[Rule, ...]]) -> Branch | None:
    rules = rules_of(schema)
    properties = {
        name: branch
        for name, part in (schema.get("properties") or {}).items()
        if (branch := _grow(part, rules_of)) is not None
    }
    values, items = (
        _grow(part, rules_of) if isinstance(part := schema.get(keyword), dict) else None
        for keyword in ("additionalProperties", "items")
    )
    if not rules and not properties and values is None and items is None:
        return None
    return Branch(rules, properties, values, items)


def errors_of(branch: Branch | None, value: Any) -> FieldErrors:
    errors: FieldErrors = []
    if branch is not None:
        _walk(branch, value, "", errors)
    return errors


def _walk(branch: Branch, value: Any, path: str, errors: FieldErrors) -> None:
    for rule in branch.rules:
        rule(value, path, errors)
    if isinstance(value, dict):
        prefix = f"{path}." if path else ""
        for name, part in branch.properties.items():
            if name in value:
                _walk(part, value[name], prefix + name, errors)
        if branch.values is not None:
            for name, item in value.items():
                _walk(branch.values, item, f"{path}[{name}]", errors)
    elif isinstance(value, list) and branch.items is not None:
        for index, item in enumerate(value):
            _walk(branch.items, item, f"{path}[{index}]", errors)


# Lists.


def _list_rules(schema: Schema) -> tuple[Rule, ...]:
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return (_check_set,)
        case "map":
            return (_map_rule(tuple(schema.get("x-kubernetes-list-map-keys") or ())),)
    return ()


def _check_set(value: Any, path: str, errors: FieldErrors) -> None:
    if isinstance(value, list):
        errors += [duplicate(f"{path}[{index}]", value[index]) for index in _repeated(value)]


def _map_rule(keys: tuple[str, ...]) -> Rule:
    def check(value: Any, path: str, errors: FieldErrors) -> None:
        if not isinstance(value, list):
            return
        for index, item in enumerate(value):
            if item is not None and not isinstance(item, dict):
                message = "must be an object for an array of list-type map"
                errors.append(invalid(f"{path}[{index}]", item, message))
                return
        identities = [{key: item[key] for key in keys if key in item} if item else {} for item in value]
        errors += [duplicate(f"{path}[{index}]", identities[index]) for index in _repeated(identities)]

    return check


def _repeated(values: Sequence[Any]) -> list[int]:
    """Return the indices of values that occurred before."""
    seen: dict[bytes, int] = {}
    repeated: list[int] = []
    for index, value in enumerate(values):
        identity = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        seen[identity] = times = seen.get(identity, 0) + 1
        if times == 2:
            repeated.append(index)
    return repeated


# Embedded objects.


def _embedded_rules(schema: Schema) -> tuple[Rule, ...]:
    return (check_embedded,) if schema.get("x-kubernetes-embedded-resource") else ()


def check_embedded(value: Any, path: str, errors: FieldErrors) -> None:
    """Append the errors of an API object embedded in another."""
    if not isinstance(value, dict):
        return
    errors += [required(f"{path}.{field}") for field in ("apiVersion", "kind") if field not in value]
    if "apiVersion" in value:
        _check_version(value["apiVersion"], f"{path}.apiVersion", errors)
    if "kind" in value:
        _check_kind(value["kind"], f"{path}.kind", errors)
    if "metadata" in value:
        _check_metadata(value["metadata"], f"{path}.metadata", errors)


def _check_version(value: Any, path: str, errors: FieldErrors) -> None:
    if not isinstance(value, str):
        errors.append(invalid(path, value, "must be a string"))
    elif not value:
        errors.append(invalid(path, value, "must not be empty"))
    elif value.count("/") > 1:
        errors.append(invalid(path, value, f"unexpected GroupVersion string: {value}"))


def _check_kind(value: Any, path: str, errors: FieldErrors) -> None:
    if not isinstance(value, str):
        errors.append(invalid(path, value, "must be a string"))
    elif not value:
        errors.append(invalid(path, value, "must not be empty"))
    elif wrong := names.dns_1035_label(value.lower()):
        message = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        errors.append(invalid(path, value, message))


_MAPS, _LISTS = ("labels", "annotations"), ("finalizers", "ownerReferences", "managedFields")
_TEXTS = ("name", "generateName", "namespace", "uid", "resourceVersion", "selfLink")


def _check_metadata(value: Any, path: str, errors: FieldErrors) -> None:
    type_error = _metadata_type_error(value)
    if type_error:
        errors.append(invalid(path, value, type_error))
        return
    # An embedded object needs no name; without this one, validation would report it as missing.
    meta: Object = {**value, "name": value.get("name") or "fakename"}
    errors += validate_metadata(meta, bool(value.get("namespace")), names.name_is_path_segment, path)


def _metadata_type_error(value: Any) -> str:
    """Return why the value cannot be decoded as metadata; empty if it can."""
    if not isinstance(value, dict):
        return "must be an object"
    for field in _TEXTS:
        if not isinstance(value.get(field, ""), str):
            return f"{field} must be a string"
    for field in _MAPS:
        entries = value.get(field) or {}
        if not isinstance(entries, dict) or not all(isinstance(each, str) for each in entries.values()):
            return f"{field} must be a map of strings"
    for field in _LISTS:
        items = value.get(field) or []
        item_type = str if field == "finalizers" else dict
        if not isinstance(items, list) or not all(isinstance(each, item_type) for each in items):
            return f"{field} must be a list of {'strings' if item_type is str else 'objects'}"
    return "" if type(value.get("generation", 0)) is int else "generation must be an integer"
