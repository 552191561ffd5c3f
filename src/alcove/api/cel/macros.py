"""Macros: `has`, `all`, `map`, … Recognised while parsing, by name and number of arguments."""

from alcove.api.cel.ast import AstNode, Comprehension, Ident, Macro, Select
from alcove.api.cel.errors import CompileError, Issue

_MEMBER: dict[tuple[str, int], tuple[Macro, int, bool]] = {
    # (name, arguments): (macro, variables, has a filter before the body)
    ("all", 2): (Macro.ALL, 1, False),
    ("all", 3): (Macro.ALL, 2, False),
    ("exists", 2): (Macro.EXISTS, 1, False),
    ("exists", 3): (Macro.EXISTS, 2, False),
    ("exists_one", 2): (Macro.EXISTS_ONE, 1, False),
    ("exists_one", 3): (Macro.EXISTS_ONE, 2, False),
    ("existsOne", 2): (Macro.EXISTS_ONE, 1, False),
    ("existsOne", 3): (Macro.EXISTS_ONE, 2, False),
    ("map", 2): (Macro.MAP, 1, False),
    ("map", 3): (Macro.MAP, 1, True),
    ("filter", 2): (Macro.FILTER, 1, False),
    ("transformList", 3): (Macro.TRANSFORM_LIST, 2, False),
    ("transformList", 4): (Macro.TRANSFORM_LIST, 2, True),
    ("transformMap", 3): (Macro.TRANSFORM_MAP, 2, False),
    ("transformMap", 4): (Macro.TRANSFORM_MAP, 2, True),
    ("transformMapEntry", 3): (Macro.TRANSFORM_MAP_ENTRY, 2, False),
    ("transformMapEntry", 4): (Macro.TRANSFORM_MAP_ENTRY, 2, True),
    ("sortBy", 2): (Macro.SORT_BY, 1, False),
    ("optMap", 2): (Macro.OPT_MAP, 1, False),
    ("optFlatMap", 2): (Macro.OPT_FLAT_MAP, 1, False),
}


def expand_global(source: str, offset: int, name: str, args: list[AstNode]) -> AstNode | None:
    """Expand `has(a.b)`; None if the call is not a macro."""
    if name != "has" or len(args) != 1:
        return None
    tested = args[0]
    if not isinstance(tested, Select) or tested.optional:
        raise CompileError(source, [Issue(tested.offset, "invalid argument to has() macro")])
    test = Select(offset, tested.operand, tested.field)
    test.test = True
    return test


def expand_member(
    source: str, offset: int, name: str, target: AstNode, args: list[AstNode]
) -> AstNode | None:
    """Expand `target.all(x, …)` and similar calls; None if the call is not a macro."""
    macro_entry = _MEMBER.get((name, len(args)))
    if macro_entry is None:
        return None
    macro, count, filtered = macro_entry
    variables = tuple(_variable(source, arg) for arg in args[:count])
    if len(set(variables)) != count:
        raise CompileError(source, [Issue(args[1].offset, f"duplicate variable name: {variables[0]}")])
    return Comprehension(offset, macro, target, variables, args[-1], args[-2] if filtered else None)


def _variable(source: str, arg: AstNode) -> str:
    if not isinstance(arg, Ident):
        raise CompileError(source, [Issue(arg.offset, "argument must be a simple name")])
    if arg.name == "__result__":
        raise CompileError(source, [Issue(arg.offset, "iteration variable overwrites accumulator variable")])
    return arg.name
