"""Types of CEL, as the checker reasons about them and as `type(x)` returns them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from msgspec import Struct


class Kind(Enum):
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
    """Known by name and functions only: a quantity, an IP address, an optional."""
    PARAM = "param"
    """A type variable."""


class Field(Struct, frozen=True):
    """A field of an object type. Expressions name it escaped; the JSON has it under `key`."""

    key: str
    type: Type
    adapt: Callable[[Any], Any] | None = None
    """Makes the CEL value of the JSON value, where they differ (timestamps, sets, …)."""


class Type:
    """Immutable. Object types are compared by identity, all others by structure."""

    __slots__ = ("_deep", "fields", "kind", "name", "params")

    def __init__(
        self,
        kind: Kind,
        name: str = "",
        params: tuple[Type, ...] = (),
        fields: Mapping[str, Field] | None = None,
        deep: Callable[[], Callable[[Any], Any] | None] | None = None,
    ) -> None:
        self.kind = kind
        self.name = name or kind.value
        self.params = params
        self.fields = fields if fields is not None else {}
        self._deep = deep

    @property
    def deep(self) -> Callable[[Any], Any] | None:
        """For objects that hold adapted fields: adapts a whole JSON object, for comparing it."""
        return self._deep() if self._deep is not None else None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Type) or self.kind is Kind.OBJECT:
            return False
        return self.kind is other.kind and self.name == other.name and self.params == other.params

    def __hash__(self) -> int:
        return hash((self.kind, self.name, self.params))

    def __str__(self) -> str:
        match self.kind:
            case Kind.NULL:
                return "null"
            case Kind.TIMESTAMP:
                return "timestamp"
            case Kind.DURATION:
                return "duration"
        if self.params:
            return f"{self.name}({', '.join(map(str, self.params))})"
        return self.name


DYN = Type(Kind.DYN)
ERROR = Type(Kind.ERROR)
NULL = Type(Kind.NULL)
BOOL = Type(Kind.BOOL)
INT = Type(Kind.INT)
UINT = Type(Kind.UINT)
DOUBLE = Type(Kind.DOUBLE)
STRING = Type(Kind.STRING)
BYTES = Type(Kind.BYTES)
TIMESTAMP = Type(Kind.TIMESTAMP)
DURATION = Type(Kind.DURATION)
TYPE = Type(Kind.TYPE)
A = Type(Kind.PARAM, "A")
B = Type(Kind.PARAM, "B")


def list_of(item: Type) -> Type:
    return Type(Kind.LIST, "list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type(Kind.MAP, "map", (key, value))


def type_of_type(of: Type) -> Type:
    return Type(Kind.TYPE, "type", (of,))


def optional_of(of: Type) -> Type:
    return Type(Kind.OPAQUE, "optional_type", (of,))


def opaque(name: str) -> Type:
    return Type(Kind.OPAQUE, name)


def is_optional(of: Type) -> bool:
    return of.kind is Kind.OPAQUE and of.name == "optional_type"


COMPARABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
"""Types with an order."""

NAMED: Mapping[str, Type] = {
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
"""Types an expression may name."""
