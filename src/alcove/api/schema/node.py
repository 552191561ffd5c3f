"""The compiled schema: the type of every field, and how lists and maps merge.

Stock kinds and custom resources compile to the same nodes, so decoding, pruning, patches and server-side
apply are implemented once. A node is read-only once it is built.
"""

from __future__ import annotations

from enum import Enum
from typing import Any


class SchemaType(Enum):
    OBJECT = "object"
    """Named fields (`properties`); all others are unknown, unless `preserve_unknown` or `values` is set."""
    MAP = "map"
    """Any key; every value is described by `values`."""
    LIST = "list"
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    INT_OR_STRING = "int-or-string"
    QUANTITY = "quantity"
    """A string or a number, as in `resources.requests.cpu`."""
    ANY = "any"
    """Any value: raw extensions, `x-kubernetes-preserve-unknown-fields` without a type."""

    # `Enum` hashes in Python, by name. Every value of every write is decoded by its type.
    __hash__ = object.__hash__


class ListType(Enum):
    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


_EXACT: dict[SchemaType, type] = {SchemaType.STRING: str, SchemaType.BOOLEAN: bool}


class SchemaNode:
    """One node of a schema. `properties` may be filled after creation, because schemas recurse."""

    __slots__ = (
        "atomic",
        "compiled",
        "default",
        "description",
        "embedded",
        "exact",
        "format",
        "has_default",
        "items",
        "list_map_keys",
        "list_type",
        "merge_key",
        "name",
        "nullable",
        "patch_strategy",
        "preserve_unknown",
        "properties",
        "raw",
        "required",
        "type",
        "values",
    )

    def __init__(self, type: SchemaType, name: str = "", format: str = "") -> None:
        self.type = type
        self.name = name
        """The definition's short name (`PodSpec`), if it has one, for decoding errors."""
        self.properties: dict[str, SchemaNode] = {}
        self.required: tuple[str, ...] = ()
        self.values: SchemaNode | None = None
        self.items: SchemaNode | None = None
        self.list_type = ListType.ATOMIC
        """The list type for server-side apply."""
        self.list_map_keys: tuple[str, ...] = ()
        self.atomic = False
        """Server-side apply treats this object or map as one value (`x-kubernetes-map-type: atomic`)."""
        self.patch_strategy: frozenset[str] = frozenset()
        """Strategies for strategic merge: of "merge", "replace", "retainKeys"."""
        self.merge_key: str | None = None
        """The merge key of a list of objects with the strategy "merge"."""
        self.format = format
        self.exact = None if format in ("byte", "date-time") else _EXACT.get(type)
        """The Python type whose values `decode` accepts without further checks."""
        self.nullable = False
        self.preserve_unknown = False
        self.embedded = False
        """The value is a whole API object: its metadata is validated and preserved."""
        self.default: Any = None
        self.has_default = False
        self.description = ""
        self.raw: dict[str, Any] = {}
        """The source schema, where it is needed later (value checks of CRDs); otherwise empty."""
        self.compiled: Any = None
        """Cache for server-side apply's shape of this node, filled on first use."""
