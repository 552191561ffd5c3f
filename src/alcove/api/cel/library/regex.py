"""Regular expressions by RE2: time is linear in the text, for every pattern."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from alcove.api.cel.budget import regex_cost
from alcove.api.cel.declarations import Library
from alcove.api.cel.errors import CelError
from alcove.api.cel.types import INT, STRING, list_of
from alcove.api.regex import RegexError, compile_regex

REGEX = Library()

PATTERN_FUNCTIONS = frozenset(("matches", "find", "findAll"))
"""Functions whose second argument is a pattern."""


class _Compiled(str):
    """A literal pattern, compiled while planning; only `pattern` sees that it is more than a string."""

    compiled: Any


def compiled_literal(text: str) -> str:
    """Return `text`, compiled in advance if it is a valid pattern."""
    literal = _Compiled(text)
    try:
        literal.compiled = compile_regex(text)
    except RegexError:
        return text
    return literal


@lru_cache(maxsize=64)
def _compile(text: str) -> Any:
    return compile_regex(text)


def pattern(text: str) -> Any:
    """Return the compiled pattern. Raises CelError."""
    if type(text) is _Compiled:
        return text.compiled
    try:
        return _compile(text)
    except RegexError as error:
        raise CelError(f"Illegal regex: {error}") from error


def pattern_cost(text: str, regex: str, *_limit: int) -> int:
    # A pattern that is not a literal has to be compiled here, which may take milliseconds.
    compiling = 0 if type(regex) is _Compiled else 2_000 + 20 * len(regex)
    return compiling + regex_cost(len(text), len(regex))


@REGEX.member("find", (STRING, STRING), STRING, cost=pattern_cost)
def _find(text: str, regex: str) -> str:
    match = pattern(regex).search(text)
    return match.group() if match is not None else ""


@REGEX.member("findAll", (STRING, STRING), list_of(STRING), cost=pattern_cost)
@REGEX.member("findAll", (STRING, STRING, INT), list_of(STRING), cost=pattern_cost)
def _find_all(text: str, regex: str, limit: int = -1) -> list[str]:
    matches: list[str] = []
    for match in _matches(text, regex):
        if len(matches) == limit:
            break
        matches.append(match)
    return matches


def _matches(text: str, regex: str) -> Iterator[str]:
    """Yield non-overlapping matches; an empty match directly after another match does not count."""
    last = -1
    for match in pattern(regex).finditer(text):
        if match.start() == match.end() == last:
            continue
        last = match.end()
        yield match.group()
