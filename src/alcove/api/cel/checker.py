"""The type checker: resolves names and overloads, and writes every node's type.

Messages and positions are cel-go's, because users of Kubernetes search for them.
"""

from collections.abc import Mapping, Sequence

from alcove.api.cel.ast import (
    AstNode,
    CallNode,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    Macro,
    MapLiteral,
    Select,
    StructLiteral,
)
from alcove.api.cel.declarations import Functions, Overload
from alcove.api.cel.errors import CompileError, Issue
from alcove.api.cel.literals import literal_issue
from alcove.api.cel.types import (
    BOOL,
    COMPARABLE,
    DYN,
    ERROR,
    INT,
    NAMED,
    CelType,
    TypeKind,
    is_optional,
    list_of,
    map_of,
    optional_of,
    type_of_type,
)
from alcove.api.cel.unify import Bindings, most_general, substitute
from alcove.api.cel.values import type_of


def check(
    source: str,
    root: AstNode,
    functions: Functions,
    variables: Mapping[str, CelType],
    structs: Mapping[str, CelType],
) -> None:
    """Set the types of the tree's nodes in place. Raises CompileError with every issue found."""
    checker = _Checker(functions, variables, structs)
    checker.check(root)
    if checker.issues:
        raise CompileError(source, checker.issues)
    checker.settle()


class _Checker:
    def __init__(
        self, functions: Functions, variables: Mapping[str, CelType], structs: Mapping[str, CelType]
    ) -> None:
        self.issues: list[Issue] = []
        self._functions = functions
        self._globals = variables
        self._structs = structs
        self._locals: list[tuple[str, CelType]] = []
        self._bindings = Bindings()
        self._free = 0
        self._mixing = 0
        """Number of enclosing calls of `format`, whose list may mix types."""
        self._typed: list[AstNode] = []

    def settle(self) -> None:
        """Replace type variables by the types they are bound to, or by dyn."""
        for node in self._typed:
            node.type = substitute(self._bindings, node.type, free_to_dyn=True)

    def check(self, node: AstNode) -> CelType:
        match node:
            case Literal():
                node_type = type_of(node.value)
            case Ident():
                node_type = self._ident(node)
            case Select():
                node_type = self._select(node)
            case CallNode():
                node_type = self._call(node)
            case ListLiteral():
                node_type = self._list(node)
            case MapLiteral():
                node_type = self._map(node)
            case StructLiteral():
                node_type = self._struct(node)
            case Comprehension():
                node_type = self._comprehension(node)
            case _:
                raise AssertionError(node)
        node.type = node_type
        self._typed.append(node)
        return node_type

    # Helpers.

    def _issue(self, offset: int, message: str) -> CelType:
        self.issues.append(Issue(offset, message))
        return ERROR

    def _fits(self, expected: CelType, actual: CelType) -> bool:
        return self._bindings.attempt((expected,), (actual,))

    def _require(self, node: AstNode, expected: CelType, actual: CelType) -> None:
        if not self._fits(expected, actual):
            self._issue(node.offset, f"expected type '{expected}' but found '{self._shown(actual)}'")

    def _shown(self, of: CelType) -> CelType:
        return substitute(self._bindings, of, free_to_dyn=True)

    def _variable(self) -> CelType:
        self._free += 1
        return CelType(TypeKind.PARAM, f"_var{self._free}")

    def _join(self, node: AstNode, previous: CelType | None, current: CelType) -> CelType:
        """Return the element type of a literal: all elements must have one type, as Kubernetes requires."""
        if previous is None:
            return current
        if self._fits(previous, current):
            return most_general(previous, current)
        if self._mixing:
            return DYN
        message = f"expected type '{self._shown(previous)}' but found '{self._shown(current)}'"
        return self._issue(node.offset, message)

    # Names.

    def _ident(self, node: Ident) -> CelType:
        return self._resolve(node) or self._issue(
            node.offset, f"undeclared reference to '{node.name}' (in container '')"
        )

    def _resolve(self, node: Ident) -> CelType | None:
        for name, node_type in reversed(self._locals):
            if name == node.name:
                return node_type
        declared = self._globals.get(node.name)
        if declared is not None:
            return declared
        named = NAMED.get(node.name) or self._structs.get(node.name)
        if named is None:
            return None
        node.constant = named
        return type_of_type(named)

    def _select(self, node: Select) -> CelType:
        named_type = self._named(node)
        if named_type is not None:
            return named_type
        operand = substitute(self._bindings, self.check(node.operand))
        target = operand.params[0] if is_optional(operand) else operand
        node_type = self._field(node, target)
        if node.test:
            return BOOL
        return optional_of(node_type) if node.optional or is_optional(operand) else node_type

    def _named(self, node: Select) -> CelType | None:
        """Return the type of a dotted name that is declared as a whole, of a variable or a type."""
        name = self._dotted(node)
        declared = self._globals.get(name) if name else None
        if declared is not None:
            node.variable = name
            return declared
        name = name if name.partition(".")[0] not in self._globals else ""
        node_type = NAMED.get(name) or self._structs.get(name) if name else None
        if node_type is None:
            return None
        node.constant = node_type
        return type_of_type(node_type)

    def _dotted(self, node: AstNode | None) -> str:
        """Return the name that a chain of selections spells; empty if it starts at a local variable."""
        parts: list[str] = []
        while isinstance(node, Select) and not node.test and not node.optional:
            parts.append(node.field)
            node = node.operand
        if not isinstance(node, Ident) or any(name == node.name for name, _ in self._locals):
            return ""
        return ".".join([node.name, *reversed(parts)])

    def _field(self, node: Select, target: CelType) -> CelType:
        match target.kind:
            case TypeKind.MAP:
                return target.params[1]
            case TypeKind.OBJECT:
                field = target.fields.get(node.field)
                return field.type if field else self._issue(node.offset, f"undefined field '{node.field}'")
            case TypeKind.PARAM:
                self._fits(DYN, target)
                return DYN
            case TypeKind.DYN | TypeKind.ERROR:
                return DYN
        self._issue(node.offset, f"type '{target}' does not support field selection")
        return DYN

    # Calls.

    def _call(self, node: CallNode) -> CelType:
        self._mixing += node.function == "format"
        actual = [self.check(arg) for arg in node.args]
        self._mixing -= node.function == "format"
        if node.function in ("_&&_", "_||_"):
            return self._logical(node, actual)
        if node.target is not None:
            qualified = self._qualified_function(node)
            if qualified:
                node.function, node.target = qualified, None
            else:
                actual.insert(0, self.check(node.target))
        overloads = self._functions.get(node.function)
        if overloads is None:
            return self._issue(node.offset, f"undeclared reference to '{node.function}' (in container '')")
        return self._resolve_overload(node, overloads, actual)

    def _qualified_function(self, node: CallNode) -> str:
        """`sets.contains(…)` is one name, unless a variable `sets` is in scope."""
        prefix = self._dotted(node.target)
        if not prefix or prefix.partition(".")[0] in self._globals:
            return ""
        name = f"{prefix}.{node.function}"
        return name if name in self._functions else ""

    def _logical(self, node: CallNode, actual: list[CelType]) -> CelType:
        for arg, node_type in zip(node.args, actual, strict=True):
            self._require(arg, BOOL, node_type)
        return BOOL

    def _resolve_overload(
        self, node: CallNode, overloads: Sequence[Overload], actual: list[CelType]
    ) -> CelType:
        result: CelType | None = None
        for overload in overloads:
            if overload.member is not (node.target is not None):
                continue
            fresh: dict[str, CelType] = {}
            params = [self._instantiate(param, fresh) for param in overload.params]
            if not self._bindings.attempt(actual, params):
                continue
            node.overloads.append(overload)
            node_type = substitute(self._bindings, self._instantiate(overload.result, fresh))
            if result is None:
                result = node_type
            elif result.kind is not TypeKind.DYN and result != node_type:
                result = DYN
        if result is None:
            message = _signature([self._shown(one) for one in actual], node.target is not None)
            return self._issue(
                node.offset, f"found no matching overload for '{node.function}' applied to '{message}'"
            )
        issue = literal_issue(node)
        if issue is not None:
            self.issues.append(issue)
        return result

    def _instantiate(self, of: CelType, fresh: dict[str, CelType]) -> CelType:
        """Return `of` with its type variables renamed to unused ones."""
        if of.kind is TypeKind.PARAM:
            if of.name not in fresh:
                fresh[of.name] = self._variable()
            return fresh[of.name]
        if not of.params:
            return of
        return CelType(of.kind, of.name, tuple(self._instantiate(param, fresh) for param in of.params))

    # Literals.

    def _list(self, node: ListLiteral) -> CelType:
        node_type: CelType | None = None
        for index, item in enumerate(node.items):
            actual = self.check(item)
            if index in node.optional:
                actual = self._unwrap(item, actual)
            node_type = self._join(item, node_type, actual)
        return list_of(node_type or self._variable())

    def _map(self, node: MapLiteral) -> CelType:
        key: CelType | None = None
        value: CelType | None = None
        for entry in node.entries:
            key = self._join(entry.key, key, self.check(entry.key))
            actual = self.check(entry.value)
            if entry.optional:
                actual = self._unwrap(entry.value, actual)
            value = self._join(entry.value, value, actual)
        return map_of(key or self._variable(), value or self._variable())

    def _struct(self, node: StructLiteral) -> CelType:
        struct = self._structs.get(node.name)
        if struct is None:
            return self._issue(node.offset, f"undeclared reference to '{node.name}' (in container '')")
        for entry in node.entries:
            assert isinstance(entry.key, Literal)
            actual = self.check(entry.value)
            if entry.optional:
                actual = self._unwrap(entry.value, actual)
            field = struct.fields.get(entry.key.value)
            if field is None:
                self._issue(entry.key.offset, f"undefined field '{entry.key.value}'")
            elif not self._fits(field.type, actual):
                message = f"expected type of field '{entry.key.value}' is '{field.type}' but provided type is '{actual}'"
                self._issue(entry.key.offset, message)
        return struct

    def _unwrap(self, node: AstNode, actual: CelType) -> CelType:
        settled = substitute(self._bindings, actual)
        if is_optional(settled):
            return settled.params[0]
        if settled.kind is not TypeKind.DYN:
            self._issue(node.offset, f"expected type 'optional_type({settled})' but found '{settled}'")
        return settled

    # Comprehensions.

    def _comprehension(self, node: Comprehension) -> CelType:
        source = substitute(self._bindings, self.check(node.source))
        if node.macro in (Macro.OPT_MAP, Macro.OPT_FLAT_MAP):
            return self._optional_map(node, source)
        node_type = self._iterated(node, source)
        scope = len(self._locals)
        self._locals.extend(zip(node.variables, node_type, strict=True))
        if node.filter is not None:
            self._require(node.filter, BOOL, self.check(node.filter))
        body = self.check(node.body)
        del self._locals[scope:]
        return self._result(node, source, body, node_type)

    def _iterated(self, node: Comprehension, source: CelType) -> tuple[CelType, ...]:
        """Return the types of the comprehension's variables."""
        count = len(node.variables)
        match source.kind:
            case TypeKind.LIST:
                return (INT, source.params[0]) if count == 2 else (source.params[0],)
            case TypeKind.MAP:
                return source.params if count == 2 else (source.params[0],)
            case TypeKind.DYN | TypeKind.ERROR | TypeKind.PARAM:
                self._fits(DYN, source)
                return (DYN,) * count
        message = f"expression of type '{source}' cannot be range of a comprehension (must be list, map, or dynamic)"
        self._issue(node.source.offset, message)
        return (ERROR,) * count

    def _result(
        self, node: Comprehension, source: CelType, body: CelType, node_type: tuple[CelType, ...]
    ) -> CelType:
        match node.macro:
            case Macro.ALL | Macro.EXISTS | Macro.EXISTS_ONE:
                self._require(node.body, BOOL, body)
                return BOOL
            case Macro.FILTER:
                self._require(node.body, BOOL, body)
                return list_of(node_type[0])
            case Macro.MAP | Macro.TRANSFORM_LIST:
                return list_of(body)
            case Macro.TRANSFORM_MAP:
                return map_of(node_type[0], body)
            case Macro.TRANSFORM_MAP_ENTRY:
                entry = map_of(self._variable(), self._variable())
                self._require(node.body, entry, body)
                return entry
            case _:
                return self._sorted(node, source, body)

    def _sorted(self, node: Comprehension, source: CelType, body: CelType) -> CelType:
        settled = substitute(self._bindings, body)
        if settled.kind not in (TypeKind.DYN, TypeKind.ERROR) and settled not in COMPARABLE:
            message = _signature([self._shown(source), list_of(self._shown(body))], True)
            self._issue(
                node.offset, f"found no matching overload for '@sortByAssociatedKeys' applied to '{message}'"
            )
        return source

    def _optional_map(self, node: Comprehension, source: CelType) -> CelType:
        if is_optional(source):
            inner = source.params[0]
        else:
            inner = DYN
            if source.kind not in (TypeKind.DYN, TypeKind.ERROR, TypeKind.PARAM):
                message = f"found no matching overload for 'hasValue' applied to '{source}.()'"
                self._issue(node.offset, message)
        self._locals.append((node.variables[0], inner))
        body = self.check(node.body)
        self._locals.pop()
        if node.macro is Macro.OPT_MAP:
            return optional_of(body)
        flat = optional_of(self._variable())
        self._require(node.body, flat, body)
        return flat


def _signature(actual: list[CelType], member: bool) -> str:
    if member:
        return f"{actual[0]}.({', '.join(map(str, actual[1:]))})"
    return f"({', '.join(map(str, actual))})"
