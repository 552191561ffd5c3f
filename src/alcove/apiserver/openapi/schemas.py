"""Definitions in OpenAPI: of built-in kinds from their package, of custom kinds from their CRDs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any

from alcove.api.kind import Kind
from alcove.api.objects import Object

_DEFS = "#/$defs/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_TYPE_FIELDS = ("apiVersion", "kind")
_ANY_OBJECT = "io.k8s.api.core.v1.ConfigMap"
"""A built-in kind whose descriptions of common fields are used for custom kinds too."""


class Dialect(Enum):
    V2 = "#/definitions/"
    V3 = "#/components/schemas/"


def name_of(kind: Kind) -> str:
    """The definition's name; a custom kind's starts with its group reversed, as in Kubernetes."""
    if kind.definition:
        return kind.definition
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def list_name_of(kind: Kind) -> str:
    return name_of(kind) + "List"


def build(kinds: Iterable[Kind], documents: Mapping[str, Object], dialect: Dialect) -> dict[str, Object]:
    """The definitions of these kinds, their lists, and all definitions that they reference."""
    definitions: dict[str, Object] = {}
    pending: list[str] = [f"{_META}.{name}" for name in ("DeleteOptions", "Status", "ListMeta", "WatchEvent")]
    for kind in kinds:
        definition_name = name_of(kind)
        if definition_name in documents:
            pending.append(definition_name)
        else:
            definitions[definition_name] = _custom(kind, documents, dialect)
            pending.append(f"{_META}.ObjectMeta")
        if list_name_of(kind) in documents:
            pending.append(list_name_of(kind))
        else:
            definitions[list_name_of(kind)] = _list(kind, documents, dialect)
    while pending:
        name = pending.pop()
        if name not in definitions and name in documents:
            definitions[name] = _converted(name, documents[name], dialect)
            pending += _references(documents[name])
    return dict(sorted(definitions.items()))


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        target = schema.get("$ref")
        if isinstance(target, str):
            yield target.removeprefix(_DEFS)
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _converted(name: str, schema: Object, dialect: Dialect) -> Object:
    if name == _INT_OR_STRING:
        return {"format": "int-or-string", **_either("integer", dialect)}
    if name == _QUANTITY:
        return {"description": schema.get("description", ""), **_either("number", dialect)}
    converted: Object = _convert(schema, dialect)
    for field in _TYPE_FIELDS:
        # The source package names the kind here; in OpenAPI it is an extension.
        converted.get("properties", {}).get(field, {}).pop("enum", None)
    return converted


def _either(other: str, dialect: Dialect) -> Object:
    """A string or another type; v2 cannot express the alternative."""
    return {"type": "string"} if dialect is Dialect.V2 else {"oneOf": [{"type": other}, {"type": "string"}]}


def _convert(schema: Any, dialect: Dialect) -> Any:
    if isinstance(schema, list):
        return [_convert(value, dialect) for value in schema]
    if not isinstance(schema, dict):
        return schema
    converted = {
        field: _field(field, value, dialect) for field, value in schema.items() if field != "$schema"
    }
    if "$ref" in converted and len(converted) > 1 and dialect is Dialect.V3:
        # In OpenAPI 3.0 other fields beside a reference are ignored.
        converted["allOf"] = [{"$ref": converted.pop("$ref")}]
    return converted


def _field(field: str, value: Any, dialect: Dialect) -> Any:
    if field == "$ref":
        return dialect.value + value.removeprefix(_DEFS)
    if field == "type" and isinstance(value, list):
        return next((each for each in value if each != "null"), "object")
    if field in ("properties", "definitions"):
        return {name: _convert(each, dialect) for name, each in value.items()}
    if field in ("default", "enum", "example", "required"):
        return value
    return _convert(value, dialect)


_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_CUSTOM_ONLY_V3 = ("oneOf", "anyOf", "not", "nullable", "default", "x-kubernetes-validations")


def _custom(kind: Kind, documents: Mapping[str, Object], dialect: Dialect) -> Object:
    """A custom kind: its CRD's schema, with the fields of every object and their usual descriptions.

    In v2, one that keeps unknown fields has no properties: kubectl refuses all others where there are some.
    """
    raw = kind.schema.raw or {"type": "object", _PRESERVE: True}
    schema: Object = _plain(raw) if dialect is Dialect.V2 else dict(raw)
    schema["x-kubernetes-group-version-kind"] = [_gvk(kind, kind.kind)]
    if dialect is Dialect.V2 and raw.get(_PRESERVE):
        return schema
    description = documents[_ANY_OBJECT]["properties"]["metadata"]["description"]
    meta = {"$ref": f"{_DEFS}{_META}.ObjectMeta", "description": description}
    schema["type"] = "object"
    schema["properties"] = {
        **(schema.get("properties") or {}),
        **_type_fields(documents, dialect),
        "metadata": _convert(meta, dialect),
    }
    return schema


def _type_fields(documents: Mapping[str, Object], dialect: Dialect) -> Object:
    fields = _converted(_ANY_OBJECT, documents[_ANY_OBJECT], dialect)["properties"]
    return {field: fields[field] for field in _TYPE_FIELDS}


def _plain(schema: Any) -> Any:
    """The part of a schema that v2 can express."""
    if isinstance(schema, list):
        return [_plain(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get(_PRESERVE):
        return {field: schema[field] for field in ("type", "description") if field in schema}
    plain = {field: value for field, value in schema.items() if field not in _CUSTOM_ONLY_V3}
    for field in ("properties", "items", "additionalProperties", "allOf"):
        if field not in plain:
            continue
        inner = plain[field]
        plain[field] = (
            {name: _plain(each) for name, each in inner.items()} if field == "properties" else _plain(inner)
        )
    return plain


def _list(kind: Kind, documents: Mapping[str, Object], dialect: Dialect) -> Object:
    item, meta = {"$ref": dialect.value + name_of(kind)}, {"$ref": f"{dialect.value}{_META}.ListMeta"}
    wrap = dialect is Dialect.V3
    return {
        "type": "object",
        "description": f"A list of {kind.kind}.",
        "required": ["items"],
        "properties": {
            **_type_fields(documents, dialect),
            "metadata": {"allOf": [meta]} if wrap else meta,
            "items": {
                "type": "array",
                "description": "The objects.",
                "items": {"allOf": [item]} if wrap else item,
            },
        },
        "x-kubernetes-group-version-kind": [_gvk(kind, kind.list_kind or kind.kind + "List")],
    }


def _gvk(kind: Kind, name: str) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": name}
