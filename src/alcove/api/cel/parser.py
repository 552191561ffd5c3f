"""Parses tokens into a tree by precedence climbing, and expands macros into their nodes.

Depth is bounded, so that no later pass over the tree can exhaust Python's stack.
"""

from collections.abc import Callable

from alcove.api.cel.ast import (
    AstNode,
    CallNode,
    Ident,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    Select,
    StructLiteral,
)
from alcove.api.cel.errors import CompileError, Issue
from alcove.api.cel.lexer import INT_MAX, INT_MIN, Lexeme, LexerToken, scan
from alcove.api.cel.macros import expand_global, expand_member
from alcove.api.cel.reserved_words import RESERVED

NESTING_MAX = 50
"""Maximum nesting of brackets, ternaries and calls."""
DEPTH_MAX = 200
"""Maximum height of the tree; chains like `a + b + c` add to it too."""

_BINARY = {
    "||": (1, "_||_"), "&&": (2, "_&&_"),
    "<": (3, "_<_"), "<=": (3, "_<=_"), ">": (3, "_>_"), ">=": (3, "_>=_"),
    "==": (3, "_==_"), "!=": (3, "_!=_"), "in": (3, "@in"),
    "+": (4, "_+_"), "-": (4, "_-_"), "*": (5, "_*_"), "/": (5, "_/_"), "%": (5, "_%_"),
}  # fmt: skip
_VARIADIC = ("_||_", "_&&_")
_EXPECTED = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"


def parse(source: str) -> AstNode:
    """Return the tree of `source`. Raises CompileError."""
    return _Parser(source).parse()


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._lexemes = scan(source)
        self._next = 0
        self._nesting = 0

    def parse(self) -> AstNode:
        node = self._expression()
        if self._peek().token is not LexerToken.END:
            raise self._unexpected("<EOF>")
        return node

    # Tokens.

    def _peek(self) -> Lexeme:
        return self._lexemes[self._next]

    def _take(self) -> Lexeme:
        lexeme = self._lexemes[self._next]
        self._next += 1
        return lexeme

    def _at(self, sign: str) -> bool:
        lexeme = self._lexemes[self._next]
        return lexeme.token is LexerToken.SIGN and lexeme.text == sign

    def _accept(self, sign: str) -> bool:
        if self._at(sign):
            self._next += 1
            return True
        return False

    def _expect(self, sign: str) -> Lexeme:
        if not self._at(sign):
            raise self._unexpected(f"'{sign}'")
        return self._take()

    # Errors.

    def _error(self, offset: int, message: str) -> CompileError:
        return CompileError(self._source, [Issue(offset, message)])

    def _unexpected(self, expected: str) -> CompileError:
        lexeme = self._peek()
        return self._error(
            lexeme.offset, f"Syntax error: mismatched input '{lexeme.text}' expecting {expected}"
        )

    def _checked(self, node: AstNode) -> AstNode:
        if node.depth > DEPTH_MAX:
            raise self._error(node.offset, f"expression recursion limit exceeded: {DEPTH_MAX}")
        return node

    # Grammar, from the outside in.

    def _expression(self) -> AstNode:
        self._nesting += 1
        if self._nesting > NESTING_MAX:
            raise self._error(self._peek().offset, f"expression recursion limit exceeded: {NESTING_MAX}")
        node = self._binary(1)
        if self._at("?"):
            question = self._take()
            chosen = self._binary(1)
            self._expect(":")
            node = self._checked(CallNode(question.offset, "_?_:_", [node, chosen, self._expression()]))
        self._nesting -= 1
        return node

    def _binary(self, minimum: int) -> AstNode:
        left = self._unary()
        while True:
            lexeme = self._peek()
            rank, function = _BINARY.get(lexeme.text, (0, "")) if lexeme.token is LexerToken.SIGN else (0, "")
            if rank < minimum:
                return left
            self._next += 1
            right = self._binary(rank + 1)
            if function in _VARIADIC and isinstance(left, CallNode) and left.function == function:
                # One flat node for `a && b && c`: depth stays low for a chain of any length.
                left.args.append(right)
                left.depth = max(left.depth, right.depth + 1)
            else:
                left = CallNode(lexeme.offset, function, [left, right])
            self._checked(left)

    def _unary(self) -> AstNode:
        for sign, function in (("!", "!_"), ("-", "-_")):
            if not self._at(sign):
                continue
            first = self._peek()
            count = 0
            while self._at(sign) and not self._at_negative_number():
                self._next += 1
                count += 1
            operand = self._postfix()
            return operand if count % 2 == 0 else self._checked(CallNode(first.offset, function, [operand]))
        return self._postfix()

    def _at_negative_number(self) -> bool:
        following = self._lexemes[min(self._next + 1, len(self._lexemes) - 1)]
        return self._at("-") and following.token in (LexerToken.INT, LexerToken.FLOAT)

    def _postfix(self) -> AstNode:
        node = self._primary()
        while True:
            if self._at("."):
                node = self._member(node)
            elif self._at("["):
                opening = self._take()
                function = "_[?_]" if self._accept("?") else "_[_]"
                index = self._expression()
                self._expect("]")
                node = CallNode(opening.offset, function, [node, index])
            elif self._at("{") and (name := _qualified(node)):
                node = StructLiteral(self._peek().offset, name, self._fields())
            else:
                return node
            self._checked(node)

    def _member(self, operand: AstNode) -> AstNode:
        dot = self._take()
        optional = self._accept("?")
        name = self._take()
        if name.token not in (LexerToken.NAME, LexerToken.QUOTED_NAME):
            self._next -= 1
            raise self._unexpected("IDENTIFIER")
        if optional or name.token is LexerToken.QUOTED_NAME or not self._at("("):
            return Select(dot.offset, operand, name.text, optional=optional)
        opening = self._take()
        args = self._arguments()
        expanded = expand_member(self._source, opening.offset, name.text, operand, args)
        return expanded or CallNode(opening.offset, name.text, args, operand)

    def _primary(self) -> AstNode:
        lexeme = self._take()
        match lexeme.token:
            case LexerToken.STRING | LexerToken.BYTES | LexerToken.FLOAT | LexerToken.UINT:
                return Literal(lexeme.offset, lexeme.value)
            case LexerToken.INT:
                return self._int(lexeme, lexeme.value)
            case LexerToken.NAME:
                return self._name(lexeme)
            case LexerToken.SIGN:
                return self._signed(lexeme)
        self._next -= 1
        raise self._unexpected(_EXPECTED)

    def _signed(self, lexeme: Lexeme) -> AstNode:
        match lexeme.text:
            case "true" | "false":
                return Literal(lexeme.offset, lexeme.text == "true")
            case "null":
                return Literal(lexeme.offset, None)
            case "(":
                node = self._expression()
                self._expect(")")
                return node
            case "[":
                return self._list(lexeme)
            case "{":
                return self._map(lexeme)
            case ".":
                name = self._take()
                if name.token is LexerToken.NAME:
                    return self._name(name)
            case "-":
                number = self._take()
                if number.token is LexerToken.INT and isinstance(number.value, int):
                    return self._int(lexeme, -number.value)
                if number.token is LexerToken.FLOAT and isinstance(number.value, float):
                    return Literal(lexeme.offset, -number.value)
        self._next -= 1
        raise self._unexpected(_EXPECTED)

    def _int(self, lexeme: Lexeme, value: object) -> Literal:
        assert isinstance(value, int)
        if not INT_MIN <= value <= INT_MAX:
            raise self._error(lexeme.offset, "invalid int literal")
        return Literal(lexeme.offset, value)

    def _name(self, lexeme: Lexeme) -> AstNode:
        if lexeme.text in RESERVED:
            raise self._error(lexeme.offset, f"reserved identifier: {lexeme.text}")
        if not self._at("("):
            return Ident(lexeme.offset, lexeme.text)
        opening = self._take()
        args = self._arguments()
        return expand_global(self._source, opening.offset, lexeme.text, args) or CallNode(
            opening.offset, lexeme.text, args
        )

    def _list(self, opening: Lexeme) -> AstNode:
        optional: set[int] = set()
        items: list[AstNode] = []

        def item() -> None:
            if self._accept("?"):
                optional.add(len(items))
            items.append(self._expression())

        self._each("]", item)
        return ListLiteral(opening.offset, items, frozenset(optional))

    def _map(self, opening: Lexeme) -> AstNode:
        entries: list[MapEntry] = []

        def entry() -> None:
            optional = self._accept("?")
            key = self._expression()
            self._expect(":")
            entries.append(MapEntry(key, self._expression(), optional))

        self._each("}", entry)
        return MapLiteral(opening.offset, entries)

    def _fields(self) -> list[MapEntry]:
        self._expect("{")
        entries: list[MapEntry] = []

        def field() -> None:
            optional = self._accept("?")
            name = self._take()
            if name.token not in (LexerToken.NAME, LexerToken.QUOTED_NAME):
                self._next -= 1
                raise self._unexpected("IDENTIFIER")
            self._expect(":")
            entries.append(MapEntry(Literal(name.offset, name.text), self._expression(), optional))

        self._each("}", field)
        return entries

    def _arguments(self) -> list[AstNode]:
        args: list[AstNode] = []
        self._each(")", lambda: args.append(self._expression()), trailing_comma=False)
        return args

    def _each(self, closing: str, element: Callable[[], None], *, trailing_comma: bool = True) -> None:
        """Parse comma-separated elements up to and including `closing`."""
        if self._accept(closing):
            return
        element()
        while self._accept(","):
            if trailing_comma and self._at(closing):
                break
            element()
        self._expect(closing)


def _qualified(node: AstNode) -> str:
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.optional and not node.test:
        prefix = _qualified(node.operand)
        return f"{prefix}.{node.field}" if prefix else ""
    return ""
