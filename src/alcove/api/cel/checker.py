"""Type-checks a tree: resolves names and overloads, writes every node's type.

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
from alcove.api.cel.literals import literal_fault
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
    """Types the tree in place. Raises CompileError with every issue found."""
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
        """How many calls of `format`, whose list may mix types, are around this place."""
        self._typed: list[AstNode] = []

    def settle(self) -> None:
        """Replaces type variables by what they turned out to be, or by dyn."""
        for node in self._typed:
            node.type = substitute(self._bindings, node.type, free_to_dyn=True)

    def check(self, node: AstNode) -> CelType:
        match node:
            case Literal():
                found = type_of(node.value)
            case Ident():
                found = self._ident(node)
            case Select():
                found = self._select(node)
            case CallNode():
                found = self._call(node)
            case ListLiteral():
                found = self._list(node)
            case MapLiteral():
                found = self._map(node)
            case StructLiteral():
                found = self._struct(node)
            case Comprehension():
                found = self._comprehension(node)
            case _:
                raise AssertionError(node)
        node.type = found
        self._typed.append(node)
        return found

    # Small tools.

    def _issue(self, offset: int, message: str) -> CelType:
        self.issues.append(Issue(offset, message))
        return ERROR

    def _fits(self, wanted: CelType, given: CelType) -> bool:
        return self._bindings.attempt((wanted,), (given,))

    def _require(self, node: AstNode, wanted: CelType, given: CelType) -> None:
        if not self._fits(wanted, given):
            self._issue(node.offset, f"expected type '{wanted}' but found '{self._shown(given)}'")

    def _shown(self, of: CelType) -> CelType:
        return substitute(self._bindings, of, free_to_dyn=True)

    def _variable(self) -> CelType:
        self._free += 1
        return CelType(TypeKind.PARAM, f"_var{self._free}")

    def _join(self, node: AstNode, previous: CelType | None, current: CelType) -> CelType:
        """The type of a literal's elements: all alike, as Kubernetes demands."""
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
        for name, found in reversed(self._locals):
            if name == node.name:
                return found
        declared = self._globals.get(node.name)
        if declared is not None:
            return declared
        named = NAMED.get(node.name) or self._structs.get(node.name)
        if named is None:
            return None
        node.constant = named
        return type_of_type(named)

    def _select(self, node: Select) -> CelType:
        known = self._named(node)
        if known is not None:
            return known
        operand = substitute(self._bindings, self.check(node.operand))
        target = operand.params[0] if is_optional(operand) else operand
        found = self._field(node, target)
        if node.test:
            return BOOL
        return optional_of(found) if node.optional or is_optional(operand) else found

    def _named(self, node: Select) -> CelType | None:
        """A dotted name that is declared as a whole: a variable's or a type's."""
        name = self._dotted(node)
        declared = self._globals.get(name) if name else None
        if declared is not None:
            node.variable = name
            return declared
        name = name if name.partition(".")[0] not in self._globals else ""
        found = NAMED.get(name) or self._structs.get(name) if name else None
        if found is None:
            return None
        node.constant = found
        return type_of_type(found)

    def _dotted(self, node: AstNode | None) -> str:
        """The name that a chain of selections spells; empty if it starts at a local variable."""
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
        given = [self.check(arg) for arg in node.args]
        self._mixing -= node.function == "format"
        if node.function in ("_&&_", "_||_"):
            return self._logical(node, given)
        if node.target is not None:
            qualified = self._qualified_function(node)
            if qualified:
                node.function, node.target = qualified, None
            else:
                given.insert(0, self.check(node.target))
        overloads = self._functions.get(node.function)
        if overloads is None:
            return self._issue(node.offset, f"undeclared reference to '{node.function}' (in container '')")
        return self._resolve_overload(node, overloads, given)

    def _qualified_function(self, node: CallNode) -> str:
        """`sets.contains(…)` is one name, unless a variable `sets` is in scope."""
        prefix = self._dotted(node.target)
        if not prefix or prefix.partition(".")[0] in self._globals:
            return ""
        name = f"{prefix}.{node.function}"
        return name if name in self._functions else ""

    def _logical(self, node: CallNode, given: list[CelType]) -> CelType:
        for arg, found in zip(node.args, given, strict=True):
            self._require(arg, BOOL, found)
        return BOOL

    def _resolve_overload(
        self, node: CallNode, overloads: Sequence[Overload], given: list[CelType]
    ) -> CelType:
        result: CelType | None = None
        for overload in overloads:
            if overload.member is not (node.target is not None):
                continue
            fresh: dict[str, CelType] = {}
            params = [self._instantiate(param, fresh) for param in overload.params]
            if not self._bindings.attempt(given, params):
                continue
            node.overloads.append(overload)
            found = substitute(self._bindings, self._instantiate(overload.result, fresh))
            if result is None:
                result = found
            elif result.kind is not TypeKind.DYN and result != found:
                result = DYN
        if result is None:
            message = _signature([self._shown(one) for one in given], node.target is not None)
            return self._issue(
                node.offset, f"found no matching overload for '{node.function}' applied to '{message}'"
            )
        fault = literal_fault(node)
        if fault is not None:
            self.issues.append(fault)
        return result

    def _instantiate(self, of: CelType, fresh: dict[str, CelType]) -> CelType:
        """`of` with its own type variables renamed to unused ones."""
        if of.kind is TypeKind.PARAM:
            if of.name not in fresh:
                fresh[of.name] = self._variable()
            return fresh[of.name]
        if not of.params:
            return of
        return CelType(of.kind, of.name, tuple(self._instantiate(param, fresh) for param in of.params))

    # Literals.

    def _list(self, node: ListLiteral) -> CelType:
        found: CelType | None = None
        for index, item in enumerate(node.items):
            given = self.check(item)
            if index in node.optional:
                given = self._unwrap(item, given)
            found = self._join(item, found, given)
        return list_of(found or self._variable())

    def _map(self, node: MapLiteral) -> CelType:
        key: CelType | None = None
        value: CelType | None = None
        for entry in node.entries:
            key = self._join(entry.key, key, self.check(entry.key))
            given = self.check(entry.value)
            if entry.optional:
                given = self._unwrap(entry.value, given)
            value = self._join(entry.value, value, given)
        return map_of(key or self._variable(), value or self._variable())

    def _struct(self, node: StructLiteral) -> CelType:
        made = self._structs.get(node.name)
        if made is None:
            return self._issue(node.offset, f"undeclared reference to '{node.name}' (in container '')")
        for entry in node.entries:
            assert isinstance(entry.key, Literal)
            given = self.check(entry.value)
            if entry.optional:
                given = self._unwrap(entry.value, given)
            field = made.fields.get(entry.key.value)
            if field is None:
                self._issue(entry.key.offset, f"undefined field '{entry.key.value}'")
            elif not self._fits(field.type, given):
                message = f"expected type of field '{entry.key.value}' is '{field.type}' but provided type is '{given}'"
                self._issue(entry.key.offset, message)
        return made

    def _unwrap(self, node: AstNode, given: CelType) -> CelType:
        settled = substitute(self._bindings, given)
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
        found = self._iterated(node, source)
        scope = len(self._locals)
        self._locals.extend(zip(node.variables, found, strict=True))
        if node.filter is not None:
            self._require(node.filter, BOOL, self.check(node.filter))
        body = self.check(node.body)
        del self._locals[scope:]
        return self._result(node, source, body, found)

    def _iterated(self, node: Comprehension, source: CelType) -> tuple[CelType, ...]:
        """Types of the variables."""
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
        self, node: Comprehension, source: CelType, body: CelType, found: tuple[CelType, ...]
    ) -> CelType:
        match node.macro:
            case Macro.ALL | Macro.EXISTS | Macro.EXISTS_ONE:
                self._require(node.body, BOOL, body)
                return BOOL
            case Macro.FILTER:
                self._require(node.body, BOOL, body)
                return list_of(found[0])
            case Macro.MAP | Macro.TRANSFORM_LIST:
                return list_of(body)
            case Macro.TRANSFORM_MAP:
                return map_of(found[0], body)
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


def _signature(given: list[CelType], member: bool) -> str:
    if member:
        return f"{given[0]}.({', '.join(map(str, given[1:]))})"
    return f"({', '.join(map(str, given))})"
