"""Compiles a custom resource's OpenAPI schema to nodes for decoding, pruning and patches.

The schema must be structural (see `structure.py`): every field is declared with its type. Nodes refer to
their part of the schema in `raw`.
"""

from typing import Any

from alcove.api.schema.node import ListType, SchemaNode, SchemaType

Schema = dict[str, Any]

_TYPES = {
    "array": SchemaType.LIST,
    "boolean": SchemaType.BOOLEAN,
    "integer": SchemaType.INTEGER,
    "number": SchemaType.NUMBER,
    "string": SchemaType.STRING,
}
_LIST_TYPES = {"atomic": ListType.ATOMIC, "set": ListType.SET, "map": ListType.MAP}


def compile_schema(schema: Schema, kind: str, metadata: SchemaNode) -> SchemaNode:
    """Return the root node of a custom resource. `metadata` is the node of ObjectMeta."""
    root = _compile(schema, metadata)
    root.name = kind
    root.type = SchemaType.OBJECT
    _identify(root, metadata)
    return root


def _identify(node: SchemaNode, metadata: SchemaNode) -> None:
    """Set apiVersion, kind and metadata to the standard nodes, overriding the schema."""
    declared = node.properties.get("metadata")
    node.properties = {
        **node.properties,
        "apiVersion": SchemaNode(SchemaType.STRING),
        "kind": SchemaNode(SchemaType.STRING),
        "metadata": _described(metadata, declared) if declared is not None else metadata,
    }


def _described(metadata: SchemaNode, declared: SchemaNode) -> SchemaNode:
    """Return the metadata node, with the default that an embedded object's schema may declare."""
    if not declared.has_default:
        return metadata
    node = SchemaNode(SchemaType.OBJECT, metadata.name)
    for slot in SchemaNode.__slots__:
        setattr(node, slot, getattr(metadata, slot))
    node.default, node.has_default = declared.default, True
    return node


def _compile(schema: Schema, metadata: SchemaNode) -> SchemaNode:
    node = SchemaNode(_type_of(schema), format=schema.get("format") or "")
    node.raw = schema
    node.description = schema.get("description") or ""
    node.nullable = bool(schema.get("nullable"))
    node.preserve_unknown = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    node.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    node.required = tuple(schema.get("required") or ())
    node.atomic = schema.get("x-kubernetes-map-type") == "atomic"
    if schema.get("default") is not None:
        node.default, node.has_default = schema["default"], True
    _compile_fields(node, schema, metadata)
    items = schema.get("items")
    if isinstance(items, dict):
        node.items = _compile(items, metadata)
        node.list_type = _LIST_TYPES.get(schema.get("x-kubernetes-list-type", ""), ListType.ATOMIC)
        node.list_map_keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    return node


def _compile_fields(node: SchemaNode, schema: Schema, metadata: SchemaNode) -> None:
    for name, part in (schema.get("properties") or {}).items():
        node.properties[name] = _compile(part, metadata)
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        node.values = _compile(values, metadata)
    elif values is True:
        # Any key is allowed, but the values are not described: objects among them keep no field.
        node.values = SchemaNode(SchemaType.OBJECT)
    if node.embedded:
        _identify(node, metadata)


def _type_of(schema: Schema) -> SchemaType:
    if schema.get("x-kubernetes-int-or-string"):
        return SchemaType.INT_OR_STRING
    kind = schema.get("type")
    if kind == "object":
        return (
            SchemaType.MAP
            if schema.get("additionalProperties") and not schema.get("properties")
            else SchemaType.OBJECT
        )
    return _TYPES.get(kind, SchemaType.ANY) if isinstance(kind, str) else SchemaType.ANY
