"""What a CRD's schema may not say, keyword by keyword, whatever its structure."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from alcove.api.fields import FieldError, forbidden, invalid, not_supported, required
from alcove.api.schema.structure import nested

Schema = dict[str, Any]
Faults = list[FieldError]

TYPES = ("array", "boolean", "integer", "number", "object", "string")
_IDENTITY = frozenset(("metadata", "kind", "apiVersion"))
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_SCALAR_TOLD = "must be a scalar type if parent array's x-kubernetes-list-type is map"


class _Place(Struct, frozen=True):
    """Where in a resource a schema applies."""

    is_root: bool = False
    no_defaults: str = ""
    """Why there may be no default here; empty: there may."""
    inside_metadata: bool = False


def keyword_faults(schema: Schema, path: str) -> Faults:
    faults: Faults = []
    _check(schema, path, _Place(is_root=True), faults)
    return faults


def _check(schema: Schema, path: str, place: _Place, faults: Faults) -> None:
    _check_supported(schema, path, place, faults)
    _check_properties(schema, path, place, faults)
    inner = replace(place, is_root=False)
    for _keyword, _index, part, where in nested(schema, path):
        _check(part, where, inner, faults)
    items = schema.get("items")
    if isinstance(items, dict):
        _check(items, f"{path}.items", inner, faults)
    _check_map_type(schema, path, faults)
    _check_list_type(schema, path, faults)
    if isinstance(items, dict) and schema.get("x-kubernetes-list-type") in ("set", "map"):
        _check_keyed_items(schema, items, path, faults)


def _check_supported(schema: Schema, path: str, place: _Place, faults: Faults) -> None:
    kind = schema.get("type") or ""
    if kind == "null":
        message = "type cannot be set to null, use nullable as an alternative"
        faults.append(forbidden(f"{path}.type", message))
    elif kind and kind not in TYPES:
        faults.append(not_supported(f"{path}.type", kind, TYPES))
    if schema.get("default") is not None and place.no_defaults:
        faults.append(forbidden(f"{path}.default", f"must not be set {place.no_defaults}"))
    for keyword in _UNSUPPORTED:
        if schema.get(keyword):
            faults.append(forbidden(f"{path}.{keyword}", f"{keyword} is not supported"))
    if isinstance(schema.get("items"), list):
        faults.append(forbidden(f"{path}.items", "items must be a schema object and not an array"))
    if place.inside_metadata and schema.get("x-kubernetes-embedded-resource"):
        message = "must not be used inside of resource meta"
        faults.append(forbidden(f"{path}.x-kubernetes-embedded-resource", message))
    if schema.get("uniqueItems"):
        message = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        faults.append(forbidden(f"{path}.uniqueItems", message))
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        where = f"{path}.x-kubernetes-preserve-unknown-fields"
        faults.append(invalid(where, False, "must be true or undefined"))


def _check_properties(schema: Schema, path: str, place: _Place, faults: Faults) -> None:
    values, properties = schema.get("additionalProperties"), schema.get("properties") or {}
    if values is not None and properties and values is not True:
        message = "additionalProperties and properties are mutual exclusive"
        faults.append(forbidden(f"{path}.additionalProperties", message))
    inner = replace(place, is_root=False)
    if isinstance(values, dict):
        message = "inside additionalProperties applying to object metadata"
        within = replace(inner, no_defaults=message) if place.inside_metadata else inner
        _check(values, f"{path}.additionalProperties", within, faults)
    for name, part in properties.items():
        within = inner
        if name in _IDENTITY and (place.is_root or schema.get("x-kubernetes-embedded-resource")):
            reason = f"in top-level {name}" if place.is_root else place.no_defaults
            within = replace(inner, inside_metadata=True, no_defaults=reason)
        _check(part, f"{path}.properties[{name}]", within, faults)


def _type_fault(schema: Schema, wanted: str, keyword: str, path: str) -> FieldError:
    message = f"must be {wanted} if {keyword} is specified"
    kind = schema.get("type")
    return invalid(f"{path}.type", kind, message) if kind else required(f"{path}.type", message)


def _check_map_type(schema: Schema, path: str, faults: Faults) -> None:
    keyword = "x-kubernetes-map-type"
    given = schema.get(keyword)
    if given is None:
        return
    if schema.get("type") != "object":
        faults.append(_type_fault(schema, "object", keyword, path))
    if given not in ("atomic", "granular"):
        faults.append(not_supported(f"{path}.{keyword}", given, ("atomic", "granular")))


def _check_list_type(schema: Schema, path: str, faults: Faults) -> None:
    keyword, keys = "x-kubernetes-list-type", schema.get("x-kubernetes-list-map-keys")
    given = schema.get(keyword)
    if given is not None and schema.get("type") != "array":
        faults.append(_type_fault(schema, "array", keyword, path))
    elif given == "set":
        _check_atomic_items(schema.get("items"), path, faults)
    if given is not None and given not in ("atomic", "set", "map"):
        faults.append(not_supported(f"{path}.{keyword}", given, ("atomic", "set", "map")))
    if keys and given != "map":
        message = "must be map if x-kubernetes-list-map-keys is non-empty"
        where = f"{path}.{keyword}"
        faults.append(required(where, message) if given is None else invalid(where, given, message))
    if given == "map":
        _check_map_list(schema, path, faults)


def _check_atomic_items(items: Any, path: str, faults: Faults) -> None:
    if not isinstance(items, dict):
        return
    message = "must be atomic as item of a list with x-kubernetes-list-type=set"
    listed, mapped = items.get("x-kubernetes-list-type"), items.get("x-kubernetes-map-type")
    if items.get("type") == "array" and listed not in (None, "atomic"):
        faults.append(invalid(f"{path}.items.x-kubernetes-list-type", listed, message))
    if items.get("type") == "object" and mapped != "atomic":
        faults.append(invalid(f"{path}.items.x-kubernetes-map-type", listed, message))


def _check_map_list(schema: Schema, path: str, faults: Faults) -> None:
    keys, items = schema.get("x-kubernetes-list-map-keys") or [], schema.get("items")
    where = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        faults.append(required(where, "must not be empty if x-kubernetes-list-type is map"))
    if items is None:
        faults.append(required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map"))
    if not isinstance(items, dict):
        return
    if items.get("type") != "object":
        message = "must be object if parent array's x-kubernetes-list-type is map"
        faults.append(invalid(f"{path}.items.type", items.get("type") or "", message))
        return
    properties = items.get("properties") or {}
    for index, key in enumerate(keys):
        part = properties.get(key)
        if part is None:
            faults.append(invalid(where, keys, "entries must all be names of item properties"))
        elif part.get("type") in ("array", "object"):
            faults.append(invalid(f"{path}.items.properties[{key}].type", items["type"], _SCALAR_TOLD))
        if key in keys[:index]:
            faults.append(invalid(where, keys, "must not contain duplicate entries"))


def _check_keyed_items(schema: Schema, items: Schema, path: str, faults: Faults) -> None:
    """Items of sets and map lists are never null; keys are always there."""
    given = schema["x-kubernetes-list-type"]
    if items.get("nullable"):
        message = f"cannot be nullable when x-kubernetes-list-type is {given}"
        faults.append(forbidden(f"{path}.items.nullable", message))
    if given != "map":
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
            faults.append(
                required(f"{where}.default", f"{message} must have a default or be a required property")
            )
        if part.get("nullable"):
            faults.append(forbidden(f"{where}.nullable", f"{message} cannot be nullable"))
