"""What a custom resource must keep beyond OpenAPI: lists that are sets or maps hold nothing twice, and
objects embedded in it are whole.

Only the branches of a schema that say such a thing are walked.
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
Faults = list[FieldError]
Rule = Callable[[Any, str, Faults], None]


class Branch(Struct, frozen=True):
    """A place in a schema with rules of its own or below it."""

    rules: tuple[Rule, ...]
    properties: dict[str, Branch]
    values: Branch | None
    items: Branch | None


def unique_lists(schema: Schema) -> Branch | None:
    """Where `schema` declares lists to be sets or maps; None if nowhere."""
    return _grow(schema, _list_rules)


def embedded_objects(schema: Schema) -> Branch | None:
    """Where `schema` holds whole API objects; None if nowhere. The root is checked elsewhere."""
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


def faults_of(branch: Branch | None, value: Any) -> Faults:
    faults: Faults = []
    if branch is not None:
        _walk(branch, value, "", faults)
    return faults


def _walk(branch: Branch, value: Any, path: str, faults: Faults) -> None:
    for rule in branch.rules:
        rule(value, path, faults)
    if isinstance(value, dict):
        prefix = f"{path}." if path else ""
        for name, part in branch.properties.items():
            if name in value:
                _walk(part, value[name], prefix + name, faults)
        if branch.values is not None:
            for name, item in value.items():
                _walk(branch.values, item, f"{path}[{name}]", faults)
    elif isinstance(value, list) and branch.items is not None:
        for index, item in enumerate(value):
            _walk(branch.items, item, f"{path}[{index}]", faults)


# Lists.


def _list_rules(schema: Schema) -> tuple[Rule, ...]:
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return (_check_set,)
        case "map":
            return (_map_rule(tuple(schema.get("x-kubernetes-list-map-keys") or ())),)
    return ()


def _check_set(value: Any, path: str, faults: Faults) -> None:
    if isinstance(value, list):
        faults += [duplicate(f"{path}[{index}]", value[index]) for index in _repeated(value)]


def _map_rule(keys: tuple[str, ...]) -> Rule:
    def check(value: Any, path: str, faults: Faults) -> None:
        if not isinstance(value, list):
            return
        for index, item in enumerate(value):
            if item is not None and not isinstance(item, dict):
                message = "must be an object for an array of list-type map"
                faults.append(invalid(f"{path}[{index}]", item, message))
                return
        identities = [{key: item[key] for key in keys if key in item} if item else {} for item in value]
        faults += [duplicate(f"{path}[{index}]", identities[index]) for index in _repeated(identities)]

    return check


def _repeated(values: Sequence[Any]) -> list[int]:
    """Where a value comes for the second time."""
    seen: dict[bytes, int] = {}
    found: list[int] = []
    for index, value in enumerate(values):
        identity = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        seen[identity] = times = seen.get(identity, 0) + 1
        if times == 2:
            found.append(index)
    return found


# Embedded objects.


def _embedded_rules(schema: Schema) -> tuple[Rule, ...]:
    return (check_embedded,) if schema.get("x-kubernetes-embedded-resource") else ()


def check_embedded(value: Any, path: str, faults: Faults) -> None:
    """What is wrong with a whole API object inside another."""
    if not isinstance(value, dict):
        return
    faults += [required(f"{path}.{field}") for field in ("apiVersion", "kind") if field not in value]
    if "apiVersion" in value:
        _check_version(value["apiVersion"], f"{path}.apiVersion", faults)
    if "kind" in value:
        _check_kind(value["kind"], f"{path}.kind", faults)
    if "metadata" in value:
        _check_metadata(value["metadata"], f"{path}.metadata", faults)


def _check_version(value: Any, path: str, faults: Faults) -> None:
    if not isinstance(value, str):
        faults.append(invalid(path, value, "must be a string"))
    elif not value:
        faults.append(invalid(path, value, "must not be empty"))
    elif value.count("/") > 1:
        faults.append(invalid(path, value, f"unexpected GroupVersion string: {value}"))


def _check_kind(value: Any, path: str, faults: Faults) -> None:
    if not isinstance(value, str):
        faults.append(invalid(path, value, "must be a string"))
    elif not value:
        faults.append(invalid(path, value, "must not be empty"))
    elif wrong := names.dns_1035_label(value.lower()):
        message = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        faults.append(invalid(path, value, message))


_MAPS, _LISTS = ("labels", "annotations"), ("finalizers", "ownerReferences", "managedFields")
_TEXTS = ("name", "generateName", "namespace", "uid", "resourceVersion", "selfLink")


def _check_metadata(value: Any, path: str, faults: Faults) -> None:
    fault = _metadata_type_fault(value)
    if fault:
        faults.append(invalid(path, value, fault))
        return
    # Without a name there would be a complaint about it; an embedded object need not have one.
    meta: Object = {**value, "name": value.get("name") or "fakename"}
    faults += validate_metadata(meta, bool(value.get("namespace")), names.name_is_path_segment, path)


def _metadata_type_fault(value: Any) -> str:
    """Why this cannot be read as metadata; empty if it can."""
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
        wanted = str if field == "finalizers" else dict
        if not isinstance(items, list) or not all(isinstance(each, wanted) for each in items):
            return f"{field} must be a list of {'strings' if wanted is str else 'objects'}"
    return "" if type(value.get("generation", 0)) is int else "generation must be an integer"
