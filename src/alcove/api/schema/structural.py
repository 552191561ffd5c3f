"""Compiles a custom resource's OpenAPI schema to nodes for decoding, pruning and patches.

The schema must be structural (see `structure.py`): every field is declared with its type. Nodes refer to
their part of the schema in `raw`. What is below a node is compiled when it is first read: a schema may have
thousands of fields that no object has.
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
    root = _StructuralNode(schema, metadata, is_resource=True)
    root.name = kind
    root.type = SchemaType.OBJECT
    return root


def compile_all(root: SchemaNode) -> None:
    """Compile everything below a node now."""
    pending = [root]
    while pending:
        node = pending.pop()
        pending += [each for each in node.properties.values() if isinstance(each, _StructuralNode)]
        pending += [each for each in (node.values, node.items) if each is not None]


class _StructuralNode(SchemaNode):
    """A node whose children are compiled when `properties`, `values` or `items` is first read."""

    __slots__ = ("_is_resource", "_metadata")

    def __init__(self, schema: Schema, metadata: SchemaNode, *, is_resource: bool = False) -> None:
        super().__init__(_type_of(schema), format=schema.get("format") or "")
        del self.properties, self.values, self.items
        self._metadata = metadata
        self.raw = schema
        self.description = schema.get("description") or ""
        self.nullable = bool(schema.get("nullable"))
        self.preserve_unknown = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        self._is_resource = is_resource or self.embedded
        self.required = tuple(schema.get("required") or ())
        self.atomic = schema.get("x-kubernetes-map-type") == "atomic"
        if schema.get("default") is not None:
            self.default, self.has_default = schema["default"], True
        if isinstance(schema.get("items"), dict):
            self.list_type = _LIST_TYPES.get(schema.get("x-kubernetes-list-type", ""), ListType.ATOMIC)
            self.list_map_keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())

    def __getattr__(self, name: str) -> Any:
        """Called for the slots that are still empty."""
        if name not in ("properties", "values", "items"):
            raise AttributeError(name)
        schema, metadata = self.raw, self._metadata
        items, values = schema.get("items"), schema.get("additionalProperties")
        self.items = _StructuralNode(items, metadata) if isinstance(items, dict) else None
        if isinstance(values, dict):
            self.values = _StructuralNode(values, metadata)
        else:
            # With `true`, any key is allowed, but the values are not described: objects keep no field.
            self.values = SchemaNode(SchemaType.OBJECT) if values is True else None
        properties: dict[str, SchemaNode] = {
            field: _StructuralNode(part, metadata) for field, part in (schema.get("properties") or {}).items()
        }
        self.properties = _identified(properties, metadata) if self._is_resource else properties
        return getattr(self, name)


def _identified(properties: dict[str, SchemaNode], metadata: SchemaNode) -> dict[str, SchemaNode]:
    """The properties with apiVersion, kind and metadata as the standard nodes, overriding the schema."""
    declared = properties.get("metadata")
    return {
        **properties,
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
