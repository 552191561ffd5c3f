"""Compiles OpenAPI definitions, stock ones and Alcove's, into nodes.

A definition becomes one node, created on first use and shared by all references, so schemas may recurse.
Scalars of one type and format share one node. Descriptions are not kept.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from alcove.api.schema.node import ListType, SchemaNode, SchemaType

_REF = "#/$defs/"

_SPECIAL = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": SchemaType.QUANTITY,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": SchemaType.INT_OR_STRING,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": SchemaType.ANY,
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": SchemaType.ANY,
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch": SchemaType.ANY,
}
"""Definitions whose Go types have custom JSON decoding, which the schema does not express."""

_SCALARS = {
    "string": SchemaType.STRING,
    "integer": SchemaType.INTEGER,
    "number": SchemaType.NUMBER,
    "boolean": SchemaType.BOOLEAN,
}


class Schema(Struct):
    """The keywords that nodes are built from; decoding skips all others."""

    ref: str = field(name="$ref", default="")
    type: str | list[str] | None = None
    format: str = ""
    properties: dict[str, Schema] = {}
    required: tuple[str, ...] = ()
    items: Schema | None = None
    values: Schema | None = field(name="additionalProperties", default=None)
    default: Any = msgspec.UNSET
    int_or_string: bool = field(name="x-kubernetes-int-or-string", default=False)
    list_type: str = field(name="x-kubernetes-list-type", default="")
    list_map_keys: tuple[str, ...] = field(name="x-kubernetes-list-map-keys", default=())
    map_type: str = field(name="x-kubernetes-map-type", default="")
    merge_key: str = field(name="x-kubernetes-patch-merge-key", default="")
    patch_strategy: str = field(name="x-kubernetes-patch-strategy", default="")


class Definitions:
    """Nodes by the name of their definition. `additions` are fields added to definitions, `removed` the names of those
    that they do not have."""

    def __init__(
        self,
        sources: Mapping[str, Schema | msgspec.Raw],
        additions: Mapping[str, Mapping[str, Schema]],
        removed: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self._sources = sources
        self._removed = removed or {}
        self._additions = additions
        self._nodes: dict[str, SchemaNode] = {}
        self._scalars: dict[tuple[SchemaType, str], SchemaNode] = {}

    def node(self, definition: str) -> SchemaNode:
        """Return the definition's node. Raises KeyError for an unknown name."""
        node = self._nodes.get(definition)
        if node is None:
            node = self._compile(definition)
        return node

    def _compile(self, definition: str) -> SchemaNode:
        source = self._sources[definition]
        schema = msgspec.json.decode(source, type=Schema) if isinstance(source, msgspec.Raw) else source
        short_name = definition.rpartition(".")[2]
        special = _SPECIAL.get(definition)
        if special is not None:
            node = SchemaNode(special, short_name)
        elif _main_type(schema) == "object" and schema.values is None:
            node = SchemaNode(SchemaType.OBJECT, short_name)
            self._nodes[definition] = node  # Registered before its fields are compiled: they may refer to it.
            self._fill(node, schema, self._additions.get(definition, {}))
            for name in self._removed.get(definition, ()):
                del node.properties[name]
        else:
            node = copy.copy(self._inline(schema))
            node.name = short_name
        self._nodes[definition] = node
        return node

    def _fill(self, node: SchemaNode, schema: Schema, added: Mapping[str, Schema]) -> None:
        fields = {**schema.properties, **added}
        node.properties = {name: self._inline(part) for name, part in fields.items()}
        node.required = schema.required
        node.atomic = schema.map_type == "atomic"

    def _inline(self, schema: Schema) -> SchemaNode:
        if schema.ref:
            return self._refer(schema)
        match _main_type(schema):
            case "object":
                return self._object(schema)
            case "array":
                return self._list(schema)
            case None:
                return self._scalar(SchemaType.INT_OR_STRING if schema.int_or_string else SchemaType.ANY, "")
            case name:
                node = self._scalar(_SCALARS[name], schema.format)
                return node if schema.default is msgspec.UNSET else _with_default(node, schema.default)

    def _refer(self, schema: Schema) -> SchemaNode:
        node = self.node(schema.ref.removeprefix(_REF))
        if not schema.patch_strategy and not schema.map_type:
            return node
        # The referring field has another merge strategy than the definition: copy the node, share the fields.
        copied = copy.copy(node)
        copied.patch_strategy = _strategies(schema)
        if schema.map_type:
            copied.atomic = schema.map_type == "atomic"
        return copied

    def _object(self, schema: Schema) -> SchemaNode:
        node = SchemaNode(SchemaType.OBJECT if schema.values is None else SchemaType.MAP)
        if schema.values is None:
            self._fill(node, schema, {})
        else:
            node.values = self._inline(schema.values)
            node.atomic = schema.map_type == "atomic"
        node.patch_strategy = _strategies(schema)
        return node

    def _list(self, schema: Schema) -> SchemaNode:
        assert schema.items is not None, "a list without items"
        node = SchemaNode(SchemaType.LIST)
        node.items = self._inline(schema.items)
        node.list_type = ListType(schema.list_type) if schema.list_type else ListType.ATOMIC
        node.list_map_keys = schema.list_map_keys
        node.patch_strategy = _strategies(schema)
        node.merge_key = schema.merge_key or None
        return node

    def _scalar(self, type: SchemaType, format: str) -> SchemaNode:
        node = self._scalars.get((type, format))
        if node is None:
            node = self._scalars[type, format] = SchemaNode(type, format=format)
        return node


def _main_type(schema: Schema) -> str | None:
    """Return the type beside "null", which the package adds to every optional field."""
    if isinstance(schema.type, list):
        return next(name for name in schema.type if name != "null")
    return schema.type


def _strategies(schema: Schema) -> frozenset[str]:
    return frozenset(schema.patch_strategy.split(",")) if schema.patch_strategy else frozenset()


def _with_default(node: SchemaNode, default: Any) -> SchemaNode:
    copied = copy.copy(node)
    copied.default, copied.has_default = default, True
    return copied
