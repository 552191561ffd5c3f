"""The abstract syntax tree. The parser builds it; the checker writes types into it.

Macros are not expanded into folds: `all`, `map`, `sortBy`, … have a node (`Comprehension`), so that type
errors have good positions and macros run as plain loops.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alcove.api.cel.declarations import Overload
    from alcove.api.cel.types import CelType


class AstNode:
    __slots__ = ("depth", "offset", "type")

    depth: int
    """Height of the tree below this node, including the node."""

    def __init__(self, offset: int, *children: AstNode) -> None:
        self.offset = offset
        self.type: CelType = None  # type: ignore[assignment]  # the checker sets it before anyone reads it
        self.depth = 1 + max((child.depth for child in children), default=0)


class Literal(AstNode):
    __slots__ = ("value",)

    def __init__(self, offset: int, value: Any) -> None:
        super().__init__(offset)
        self.value = value


class Ident(AstNode):
    __slots__ = ("constant", "name")

    def __init__(self, offset: int, name: str) -> None:
        super().__init__(offset)
        self.name = name
        self.constant: CelType | None = None
        """Set if the name is that of a type (`int`, `string`) and not of a variable."""


class Select(AstNode):
    """`operand.field`, `operand.?field` (optional) or `has(operand.field)` (test)."""

    __slots__ = ("constant", "field", "operand", "optional", "test", "variable")

    def __init__(self, offset: int, operand: AstNode, field: str, *, optional: bool = False) -> None:
        super().__init__(offset, operand)
        self.operand = operand
        self.field = field
        self.optional = optional
        self.test = False
        self.constant: CelType | None = None
        """Set if the whole expression is a type's qualified name."""
        self.variable = ""
        """Set if the whole expression is the name of a variable (`authorizer.requestResource`)."""


class CallNode(AstNode):
    """A function, method or operator. Operators have cel-go's names: `_+_`, `_[_]`, `!_`, …"""

    __slots__ = ("args", "function", "overloads", "target")

    def __init__(
        self, offset: int, function: str, args: list[AstNode], target: AstNode | None = None
    ) -> None:
        super().__init__(offset, *args, *([target] if target else []))
        self.function = function
        self.args = args
        self.target = target
        self.overloads: list[Overload] = []


class ListLiteral(AstNode):
    __slots__ = ("items", "optional")

    def __init__(self, offset: int, items: list[AstNode], optional: frozenset[int]) -> None:
        super().__init__(offset, *items)
        self.items = items
        self.optional = optional


class MapEntry:
    __slots__ = ("key", "optional", "value")

    def __init__(self, key: AstNode, value: AstNode, optional: bool) -> None:
        self.key = key
        self.value = value
        self.optional = optional


class MapLiteral(AstNode):
    __slots__ = ("entries",)

    def __init__(self, offset: int, entries: list[MapEntry]) -> None:
        super().__init__(offset, *(part for entry in entries for part in (entry.key, entry.value)))
        self.entries = entries


class StructLiteral(AstNode):
    """`Name{field: value}`; keys of `entries` are string literals."""

    __slots__ = ("entries", "name")

    def __init__(self, offset: int, name: str, entries: list[MapEntry]) -> None:
        super().__init__(offset, *(entry.value for entry in entries))
        self.name = name
        self.entries = entries


class Macro(Enum):
    ALL = "all"
    EXISTS = "exists"
    EXISTS_ONE = "exists_one"
    MAP = "map"
    FILTER = "filter"
    TRANSFORM_LIST = "transformList"
    TRANSFORM_MAP = "transformMap"
    TRANSFORM_MAP_ENTRY = "transformMapEntry"
    SORT_BY = "sortBy"
    OPT_MAP = "optMap"
    OPT_FLAT_MAP = "optFlatMap"


class Comprehension(AstNode):
    """`source.macro(variables…, [filter,] body)`. Two variables are index or key, and value."""

    __slots__ = ("body", "filter", "macro", "source", "variables")

    def __init__(
        self,
        offset: int,
        macro: Macro,
        source: AstNode,
        variables: tuple[str, ...],
        body: AstNode,
        filter: AstNode | None,
    ) -> None:
        super().__init__(offset, source, body, *([filter] if filter else []))
        self.macro = macro
        self.source = source
        self.variables = variables
        self.body = body
        self.filter = filter
