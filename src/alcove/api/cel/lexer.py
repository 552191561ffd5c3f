"""Splits a source text into tokens, by the grammar of CEL.

One regular expression, with linear time in the length of the text.
"""

import re
from enum import Enum
from typing import NamedTuple

from alcove.api.cel.errors import CompileError, Issue
from alcove.api.cel.values import Uint

SOURCE_MAX = 20_000
"""Maximum length of a source, in code points: it compiles within a tenth of a second."""


class LexerToken(Enum):
    INT = "int"
    UINT = "uint"
    FLOAT = "float"
    STRING = "string"
    BYTES = "bytes"
    NAME = "name"
    QUOTED_NAME = "quoted name"
    SIGN = "sign"
    """Operators, brackets, and the keywords `in`, `true`, `false`, `null`."""
    END = "end"


class Lexeme(NamedTuple):
    token: LexerToken
    text: str
    value: int | float | str | bytes | None
    offset: int


_TEXT = r"""(?:\"\"\"(?:\\[\s\S]|[^\\])*?\"\"\"|'''(?:\\[\s\S]|[^\\])*?'''|\"(?:\\.|[^\\\"\n\r])*\"|'(?:\\.|[^\\'\n\r])*')"""
_RAW = r"""(?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|\"[^\"\n\r]*\"|'[^'\n\r]*')"""
_LEXEMES = re.compile(
    rf"""(?P<skip>[\t \r\n\f]+|//[^\n]*)
    |(?P<raw_bytes>(?:[bB][rR]|[rR][bB]){_RAW})|(?P<raw>[rR]{_RAW})|(?P<bytes>[bB]{_TEXT})|(?P<string>{_TEXT})
    |(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])|(?P<int>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<quoted>`[A-Za-z0-9_.\-/ ]+`)
    |(?P<sign>==|!=|<=|>=|&&|\|\||[\[\]{{}}().,\-!?:+*/%<>])""",
    re.VERBOSE,
)
_WORDS = frozenset({"in", "true", "false", "null"})

INT_MAX, INT_MIN, UINT_MAX = 2**63 - 1, -(2**63), 2**64 - 1


def scan(source: str) -> list[Lexeme]:
    """Return the tokens of `source`, ending in END. Raises CompileError."""
    if len(source) > SOURCE_MAX:
        issue = Issue(0, f"expression code point size exceeds limit: size: {len(source)}, limit {SOURCE_MAX}")
        raise CompileError("", [issue])
    lexemes: list[Lexeme] = []
    position = 0
    while position < len(source):
        match = _LEXEMES.match(source, position)
        if match is None:
            message = f"Syntax error: token recognition error at: '{source[position]}'"
            raise CompileError(source, [Issue(position, message)])
        if match.lastgroup != "skip":
            lexemes.append(_lexeme(source, match))
        position = match.end()
    lexemes.append(Lexeme(LexerToken.END, "<EOF>", None, len(source)))
    return lexemes


def _lexeme(source: str, match: re.Match[str]) -> Lexeme:
    text, offset, group = match.group(), match.start(), match.lastgroup
    match group:
        case "name":
            return Lexeme(LexerToken.SIGN if text in _WORDS else LexerToken.NAME, text, None, offset)
        case "sign":
            return Lexeme(LexerToken.SIGN, text, None, offset)
        case "int":
            return Lexeme(LexerToken.INT, text, _integer(text), offset)
        case "uint":
            value = _integer(text[:-1])
            if value > UINT_MAX:
                raise CompileError(source, [Issue(offset, "invalid uint literal")])
            return Lexeme(LexerToken.UINT, text, Uint(value), offset)
        case "float":
            return Lexeme(LexerToken.FLOAT, text, float(text), offset)
        case "quoted":
            return Lexeme(LexerToken.QUOTED_NAME, text[1:-1], None, offset)
        case "string" | "raw":
            raw = group == "raw"
            value_text = _strip(text[1:] if raw else text)
            decoded = value_text if raw else _unescape(source, value_text, offset)
            return Lexeme(LexerToken.STRING, text, decoded, offset)
        case _:
            raw = group == "raw_bytes"
            value_text = _strip(text[2:] if raw else text[1:])
            content = value_text.encode() if raw else _unescape_bytes(source, value_text, offset)
            return Lexeme(LexerToken.BYTES, text, content, offset)


def _integer(digits: str) -> int:
    if len(digits) > 64:  # Out of range for every type; Python raises on thousands of digits.
        return UINT_MAX + 1
    return int(digits, 16) if digits.startswith("0x") else int(digits)


def _strip(quoted: str) -> str:
    return quoted[3:-3] if quoted[:3] in ('"""', "'''") and len(quoted) >= 6 else quoted[1:-1]


_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\"'\\?`])|([0-3][0-7]{2})|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|)"
)
_NAMED = dict(zip("abfnrtv\"'\\?`", "\a\b\f\n\r\t\v\"'\\?`", strict=True))


def _escape_value(source: str, match: re.Match[str], offset: int) -> tuple[int, bool]:
    """Return the code of an escape, and whether it is a code point rather than a byte."""
    named, octal, byte, short, long = match.groups()
    if named:
        return ord(_NAMED[named]), False
    if octal:
        return int(octal, 8), False
    if byte:
        return int(byte, 16), False
    if short or long:
        code = int(short or long, 16)
        if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
            return code, True
        raise CompileError(source, [Issue(offset, "invalid unicode code point")])
    raise CompileError(source, [Issue(offset, "Syntax error: token recognition error at: escape sequence")])


def _unescape(source: str, text: str, offset: int) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: chr(_escape_value(source, match, offset)[0]), text)


def _unescape_bytes(source: str, text: str, offset: int) -> bytes:
    """In bytes, `\\xff` and `\\377` are one byte; other characters are their UTF-8."""
    parts: list[bytes] = []
    position = 0
    for match in _ESCAPE.finditer(text):
        parts.append(text[position : match.start()].encode())
        code, is_point = _escape_value(source, match, offset)
        if is_point:
            raise CompileError(source, [Issue(offset, "unable to unescape string: \\u in bytes literal")])
        parts.append(bytes([code]))
        position = match.end()
    parts.append(text[position:].encode())
    return b"".join(parts)
