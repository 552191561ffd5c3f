"""Checks the keywords of a CRD's schema one by one, independently of its structure."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from alcove.api.fields import FieldError, forbidden, invalid, not_supported, required
from alcove.api.schema.structure import nested

Schema = dict[str, Any]
FieldErrors = list[FieldError]

TYPES = ("array", "boolean", "integer", "number", "object", "string")
_IDENTITY = frozenset(("metadata", "kind", "apiVersion"))
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_SCALAR_REQUIRED = "must be a scalar type if parent array's x-kubernetes-list-type is map"


class _Position(Struct, frozen=True):
    """The position of a schema within a resource."""

    is_root: bool = False
    no_defaults: str = ""
    """Why a default is not allowed here; empty if it is allowed."""
    inside_metadata: bool = False


def keyword_errors(schema: Schema, path: str) -> FieldErrors:
    errors: FieldErrors = []
    _check(schema, path, _Position(is_root=True), errors)
    return errors


def _check(schema: Schema, path: str, position: _Position, errors: FieldErrors) -> None:
    _check_supported(schema, path, position, errors)
    _check_properties(schema, path, position, errors)
    inner = replace(position, is_root=False)
    for _keyword, _index, part, where in nested(schema, path):
        _check(part, where, inner, errors)
    items = schema.get("items")
    if isinstance(items, dict):
        _check(items, f"{path}.items", inner, errors)
    _check_map_type(schema, path, errors)
    _check_list_type(schema, path, errors)
    if isinstance(items, dict) and schema.get("x-kubernetes-list-type") in ("set", "map"):
        _check_keyed_items(schema, items, path, errors)


def _check_supported(schema: Schema, path: str, position: _Position, errors: FieldErrors) -> None:
    kind = schema.get("type") or ""
    if kind == "null":
        message = "type cannot be set to null, use nullable as an alternative"
        errors.append(forbidden(f"{path}.type", message))
    elif kind and kind not in TYPES:
        errors.append(not_supported(f"{path}.type", kind, TYPES))
    if schema.get("default") is not None and position.no_defaults:
        errors.append(forbidden(f"{path}.default", f"must not be set {position.no_defaults}"))
    for keyword in _UNSUPPORTED:
        if schema.get(keyword):
            errors.append(forbidden(f"{path}.{keyword}", f"{keyword} is not supported"))
    if isinstance(schema.get("items"), list):
        errors.append(forbidden(f"{path}.items", "items must be a schema object and not an array"))
    if position.inside_metadata and schema.get("x-kubernetes-embedded-resource"):
        message = "must not be used inside of resource meta"
        errors.append(forbidden(f"{path}.x-kubernetes-embedded-resource", message))
    if schema.get("uniqueItems"):
        message = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden(f"{path}.uniqueItems", message))
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        where = f"{path}.x-kubernetes-preserve-unknown-fields"
        errors.append(invalid(where, False, "must be true or undefined"))


def _check_properties(schema: Schema, path: str, position: _Position, errors: FieldErrors) -> None:
    values, properties = schema.get("additionalProperties"), schema.get("properties") or {}
    if values is not None and properties and values is not True:
        message = "additionalProperties and properties are mutual exclusive"
        errors.append(forbidden(f"{path}.additionalProperties", message))
    inner = replace(position, is_root=False)
    if isinstance(values, dict):
        message = "inside additionalProperties applying to object metadata"
        within = replace(inner, no_defaults=message) if position.inside_metadata else inner
        _check(values, f"{path}.additionalProperties", within, errors)
    for name, part in properties.items():
        within = inner
        if name in _IDENTITY and (position.is_root or schema.get("x-kubernetes-embedded-resource")):
            reason = f"in top-level {name}" if position.is_root else position.no_defaults
            within = replace(inner, inside_metadata=True, no_defaults=reason)
        _check(part, f"{path}.properties[{name}]", within, errors)


def _type_error(schema: Schema, expected: str, keyword: str, path: str) -> FieldError:
    message = f"must be {expected} if {keyword} is specified"
    kind = schema.get("type")
    return invalid(f"{path}.type", kind, message) if kind else required(f"{path}.type", message)


def _check_map_type(schema: Schema, path: str, errors: FieldErrors) -> None:
    keyword = "x-kubernetes-map-type"
    value = schema.get(keyword)
    if value is None:
        return
    if schema.get("type") != "object":
        errors.append(_type_error(schema, "object", keyword, path))
    if value not in ("atomic", "granular"):
        errors.append(not_supported(f"{path}.{keyword}", value, ("atomic", "granular")))


def _check_list_type(schema: Schema, path: str, errors: FieldErrors) -> None:
    keyword, keys = "x-kubernetes-list-type", schema.get("x-kubernetes-list-map-keys")
    value = schema.get(keyword)
    if value is not None and schema.get("type") != "array":
        errors.append(_type_error(schema, "array", keyword, path))
    elif value == "set":
        _check_atomic_items(schema.get("items"), path, errors)
    if value is not None and value not in ("atomic", "set", "map"):
        errors.append(not_supported(f"{path}.{keyword}", value, ("atomic", "set", "map")))
    if keys and value != "map":
        message = "must be map if x-kubernetes-list-map-keys is non-empty"
        where = f"{path}.{keyword}"
        errors.append(required(where, message) if value is None else invalid(where, value, message))
    if value == "map":
        _check_map_list(schema, path, errors)


def _check_atomic_items(items: Any, path: str, errors: FieldErrors) -> None:
    if not isinstance(items, dict):
        return
    message = "must be atomic as item of a list with x-kubernetes-list-type=set"
    listed, mapped = items.get("x-kubernetes-list-type"), items.get("x-kubernetes-map-type")
    if items.get("type") == "array" and listed not in (None, "atomic"):
        errors.append(invalid(f"{path}.items.x-kubernetes-list-type", listed, message))
    if items.get("type") == "object" and mapped != "atomic":
        errors.append(invalid(f"{path}.items.x-kubernetes-map-type", listed, message))


def _check_map_list(schema: Schema, path: str, errors: FieldErrors) -> None:
    keys, items = schema.get("x-kubernetes-list-map-keys") or [], schema.get("items")
    where = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        errors.append(required(where, "must not be empty if x-kubernetes-list-type is map"))
    if items is None:
        errors.append(required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map"))
    if not isinstance(items, dict):
        return
    if items.get("type") != "object":
        message = "must be object if parent array's x-kubernetes-list-type is map"
        errors.append(invalid(f"{path}.items.type", items.get("type") or "", message))
        return
    properties = items.get("properties") or {}
    for index, key in enumerate(keys):
        part = properties.get(key)
        if part is None:
            errors.append(invalid(where, keys, "entries must all be names of item properties"))
        elif part.get("type") in ("array", "object"):
            errors.append(invalid(f"{path}.items.properties[{key}].type", items["type"], _SCALAR_REQUIRED))
        if key in keys[:index]:
            errors.append(invalid(where, keys, "must not contain duplicate entries"))


def _check_keyed_items(schema: Schema, items: Schema, path: str, errors: FieldErrors) -> None:
    """Items of sets and map lists cannot be nullable; the key fields must be required or have defaults."""
    value = schema["x-kubernetes-list-type"]
    if items.get("nullable"):
        message = f"cannot be nullable when x-kubernetes-list-type is {value}"
        errors.append(forbidden(f"{path}.items.nullable", message))
    if value != "map":
        return
    properties, needed = items.get("properties") or {}, items.get("required") or ()
    for key in schema.get("x-kubernetes-list-map-keys") or ():
        part = properties.get(key)
        if part is None:
            continue
        where, message = (
            f"{path}.items.properties[{key}]",
            "this property is in x-kubernetes-list-map-keys, so it",
        )
        if key not in needed and part.get("default") is None:
            errors.append(
                required(f"{where}.default", f"{message} must have a default or be a required property")
            )
        if part.get("nullable"):
            errors.append(forbidden(f"{where}.nullable", f"{message} cannot be nullable"))
