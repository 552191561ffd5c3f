"""CEL types, as the checker uses them and as `type(x)` returns them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from msgspec import Struct


class TypeKind(Enum):
    DYN = "dyn"
    ERROR = "!error!"
    NULL = "null_type"
    BOOL = "bool"
    INT = "int"
    UINT = "uint"
    DOUBLE = "double"
    STRING = "string"
    BYTES = "bytes"
    TIMESTAMP = "google.protobuf.Timestamp"
    DURATION = "google.protobuf.Duration"
    LIST = "list"
    MAP = "map"
    TYPE = "type"
    OBJECT = "object"
    """Named fields, from a schema."""
    OPAQUE = "opaque"
    """A type known only by name and functions: a quantity, an IP address, an optional."""
    PARAM = "param"
    """A type variable."""


class TypeField(Struct, frozen=True):
    """A field of an object type. `key` is its name in JSON, which expressions write escaped."""

    key: str
    type: CelType
    adapt: Callable[[Any], Any] | None = None
    """Converts the JSON value to the CEL value, where they differ (timestamps, sets, …)."""


class CelType:
    """Immutable. Object types are compared by identity, all others by structure."""

    __slots__ = ("_deep", "fields", "kind", "name", "params")

    def __init__(
        self,
        kind: TypeKind,
        name: str = "",
        params: tuple[CelType, ...] = (),
        fields: Mapping[str, TypeField] | None = None,
        deep: Callable[[], Callable[[Any], Any] | None] | None = None,
    ) -> None:
        self.kind = kind
        self.name = name or kind.value
        self.params = params
        self.fields = fields if fields is not None else {}
        self._deep = deep

    @property
    def deep(self) -> Callable[[Any], Any] | None:
        """For objects with adapted fields: adapts a whole JSON object, so that it can be compared."""
        return self._deep() if self._deep is not None else None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, CelType) or self.kind is TypeKind.OBJECT:
            return False
        return self.kind is other.kind and self.name == other.name and self.params == other.params

    def __hash__(self) -> int:
        return hash((self.kind, self.name, self.params))

    def __str__(self) -> str:
        match self.kind:
            case TypeKind.NULL:
                return "null"
            case TypeKind.TIMESTAMP:
                return "timestamp"
            case TypeKind.DURATION:
                return "duration"
        if self.params:
            return f"{self.name}({', '.join(map(str, self.params))})"
        return self.name


DYN = CelType(TypeKind.DYN)
ERROR = CelType(TypeKind.ERROR)
NULL = CelType(TypeKind.NULL)
BOOL = CelType(TypeKind.BOOL)
INT = CelType(TypeKind.INT)
UINT = CelType(TypeKind.UINT)
DOUBLE = CelType(TypeKind.DOUBLE)
STRING = CelType(TypeKind.STRING)
BYTES = CelType(TypeKind.BYTES)
TIMESTAMP = CelType(TypeKind.TIMESTAMP)
DURATION = CelType(TypeKind.DURATION)
TYPE = CelType(TypeKind.TYPE)
A = CelType(TypeKind.PARAM, "A")
B = CelType(TypeKind.PARAM, "B")


def list_of(item: CelType) -> CelType:
    return CelType(TypeKind.LIST, "list", (item,))


def map_of(key: CelType, value: CelType) -> CelType:
    return CelType(TypeKind.MAP, "map", (key, value))


def type_of_type(of: CelType) -> CelType:
    return CelType(TypeKind.TYPE, "type", (of,))


def optional_of(of: CelType) -> CelType:
    return CelType(TypeKind.OPAQUE, "optional_type", (of,))


def opaque(name: str) -> CelType:
    return CelType(TypeKind.OPAQUE, name)


def is_optional(of: CelType) -> bool:
    return of.kind is TypeKind.OPAQUE and of.name == "optional_type"


COMPARABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
"""Types that have an order."""

NAMED: Mapping[str, CelType] = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "google.protobuf.Duration": DURATION,
    "google.protobuf.Timestamp": TIMESTAMP,
    "int": INT,
    "kubernetes.Quantity": opaque("kubernetes.Quantity"),
    "kubernetes.URL": opaque("kubernetes.URL"),
    "list": list_of(A),
    "map": map_of(A, B),
    "net.CIDR": opaque("net.CIDR"),
    "net.IP": opaque("net.IP"),
    "null_type": NULL,
    "string": STRING,
    "type": TYPE,
    "uint": UINT,
    "optional_type": optional_of(A),
}
"""Types that an expression may refer to by name."""
