"""CEL types from a kind's compiled schema (`api/schema/node.py`), for type-checking only.

Where the schema leaves something open, so does the type: checking reports no error for an expression that may
be correct.
"""

from collections.abc import Iterator, Mapping

from alcove.api.cel.escaping import escape
from alcove.api.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    CelType,
    TypeField,
    TypeKind,
    list_of,
    map_of,
)
from alcove.api.schema.node import SchemaNode, SchemaType

_SCALARS = {
    SchemaType.BOOLEAN: BOOL,
    SchemaType.INTEGER: INT,
    SchemaType.NUMBER: DOUBLE,
    SchemaType.STRING: STRING,
}
_STRINGS = {"byte": BYTES, "date-time": TIMESTAMP}


class NodeTypes:
    """Equal nodes have equal types: `object.spec` and `oldObject.spec` can be compared."""

    def __init__(self) -> None:
        self._types: dict[int, tuple[SchemaNode, CelType]] = {}
        """By `id()` of the node; the node is kept alive so that its id is not reused."""

    def of(self, node: SchemaNode) -> CelType:
        if node.type is SchemaType.OBJECT and not node.preserve_unknown and node.values is None:
            cached = self._types.get(id(node))
            if cached is None:
                fields = _Fields(self, node)
                cached = self._types[id(node)] = (
                    node,
                    CelType(TypeKind.OBJECT, node.name or "object", (), fields),
                )
            return cached[1]
        match node.type:
            case SchemaType.MAP:
                return map_of(STRING, self.of(node.values) if node.values is not None else DYN)
            case SchemaType.LIST:
                return list_of(self.of(node.items) if node.items is not None else DYN)
            case SchemaType.STRING if node.format in _STRINGS:
                return _STRINGS[node.format]
        return _SCALARS.get(node.type, DYN)


class _Fields(Mapping[str, TypeField]):
    """Fields of an object, created on first use, because schemas recurse. A name that is a keyword of the
    language can be read both escaped and unescaped."""

    def __init__(self, types: NodeTypes, node: SchemaNode) -> None:
        self._types = types
        self._names = {escape(name) or name: name for name in node.properties}
        self._properties = node.properties

    def __getitem__(self, spelled: str) -> TypeField:
        name = self._names.get(spelled, spelled)
        return TypeField(name, self._types.of(self._properties[name]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
