"""The compiled schema: what every field may hold, and how lists and maps merge.

Stock kinds and custom resources compile to the same nodes, so decoding, pruning, patches and
server-side apply are written once. A node is built once and then only read.
"""

from __future__ import annotations

from enum import Enum
from typing import Any


class SchemaType(Enum):
    OBJECT = "object"
    """Named fields (`properties`); others are unknown, unless `preserve_unknown` or `values`."""
    MAP = "map"
    """Any key, every value as `values` says."""
    LIST = "list"
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    INT_OR_STRING = "int-or-string"
    QUANTITY = "quantity"
    """A string or a number, as `resources.requests.cpu` takes."""
    ANY = "any"
    """Anything: raw extensions, `x-kubernetes-preserve-unknown-fields` without a type."""


class ListType(Enum):
    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


_EXACT: dict[SchemaType, type] = {SchemaType.STRING: str, SchemaType.BOOLEAN: bool}


class SchemaNode:
    """One place in a schema. `properties` may be filled after creation: schemas recurse."""

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
        """The definition's short name where it has one (`PodSpec`): decode errors tell it."""
        self.properties: dict[str, SchemaNode] = {}
        self.required: tuple[str, ...] = ()
        self.values: SchemaNode | None = None
        self.items: SchemaNode | None = None
        self.list_type = ListType.ATOMIC
        """Server-side apply's view of a list."""
        self.list_map_keys: tuple[str, ...] = ()
        self.atomic = False
        """Server-side apply treats this object or map as one value (`x-kubernetes-map-type: atomic`)."""
        self.patch_strategy: frozenset[str] = frozenset()
        """Strategic merge's view: of "merge", "replace", "retainKeys"."""
        self.merge_key: str | None = None
        """Strategic merge's key for a list of objects with the strategy "merge"."""
        self.format = format
        self.exact = None if format in ("byte", "date-time") else _EXACT.get(type)
        """The Python type whose values `decode` takes without a further look."""
        self.nullable = False
        self.preserve_unknown = False
        self.embedded = False
        """A whole API object sits here: its metadata is checked and kept."""
        self.default: Any = None
        self.has_default = False
        self.description = ""
        self.raw: dict[str, Any] = {}
        """The schema this was compiled from, where a reader needs more (CRD value checks); else empty."""
        self.compiled: Any = None
        """What server-side apply makes of this node, when it first needs it."""
