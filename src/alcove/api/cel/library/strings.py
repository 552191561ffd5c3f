"""Kubernetes' string functions (cel-go's strings extension, version 2). Positions count code points."""

import re
from typing import Any

from alcove.api.cel.budget import text_cost
from alcove.api.cel.declarations import Library
from alcove.api.cel.errors import CelError
from alcove.api.cel.types import INT, STRING, list_of

STRINGS = Library()
_member = STRINGS.member
_TEXTS = list_of(STRING)
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def _walk(text: str, *_rest: Any) -> int:
    return text_cost(len(text))


def _walk_twice(text: str, *_rest: Any) -> int:
    return text_cost(2 * len(text))


def _search(text: str, part: str, *_rest: Any) -> int:
    # Python's search is quadratic only for crafted needles; every search is charged as if it were.
    return text_cost(len(text)) * text_cost(len(part))


@_member("charAt", (STRING, INT), STRING)
def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


@_member("indexOf", (STRING, STRING), INT, cost=_search)
@_member("indexOf", (STRING, STRING, INT), INT, cost=_search)
def _index_of(text: str, part: str, offset: int = 0) -> int:
    if offset < 0:
        raise CelError(f"index out of range: {offset}")
    if not part:
        return min(offset, len(text))
    return text.find(part, offset)


@_member("lastIndexOf", (STRING, STRING), INT, cost=_search)
def _last_index_of(text: str, part: str) -> int:
    return text.rfind(part)


@_member("lastIndexOf", (STRING, STRING, INT), INT, cost=_search)
def _last_index_of_from(text: str, part: str, offset: int) -> int:
    if offset < 0:
        raise CelError(f"index out of range: {offset}")
    if not part:
        return min(offset, len(text))
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


_member("lowerAscii", (STRING,), STRING, cost=_walk)(lambda text: text.translate(_LOWER))
_member("upperAscii", (STRING,), STRING, cost=_walk)(lambda text: text.translate(_UPPER))


def _replace_cost(text: str, old: str, new: str, count: int = -1) -> int:
    maximum = len(text) + 1 if not old else len(text) // len(old)
    maximum = min(maximum, count) if count >= 0 else maximum
    return text_cost(2 * len(text) + maximum * len(new)) + _search(text, old)


@_member("replace", (STRING, STRING, STRING), STRING, cost=_replace_cost)
@_member("replace", (STRING, STRING, STRING, INT), STRING, cost=_replace_cost)
def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    return text.replace(old, new, max(count, -1))


@_member("split", (STRING, STRING), _TEXTS, cost=_walk_twice)
@_member("split", (STRING, STRING, INT), _TEXTS, cost=_walk_twice)
def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    if 0 < count < len(text):
        return [*text[: count - 1], text[count - 1 :]]
    return list(text)


@_member("substring", (STRING, INT), STRING, cost=_walk)
@_member("substring", (STRING, INT, INT), STRING, cost=_walk)
def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if start > last and end is not None:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    for bound in (start, last):
        if not 0 <= bound <= len(text):
            raise CelError(f"index out of range: {bound}")
    return text[start:last]


# Go's white space: Unicode's, without the information separators that Python includes.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"

_member("trim", (STRING,), STRING, cost=_walk)(lambda text: text.strip(_SPACE))


def _join_cost(parts: list[Any], separator: str = "") -> int:
    return text_cost(2 * sum(map(len, parts)) + len(parts) * len(separator))


@_member("join", (_TEXTS,), STRING, cost=_join_cost)
@_member("join", (_TEXTS, STRING), STRING, cost=_join_cost)
def _join(parts: list[str], separator: str = "") -> str:
    return separator.join(parts)


_QUOTED = re.compile(r"[\a\b\f\n\r\t\v\\\"]")
_ESCAPED = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}


@STRINGS.function("strings.quote", (STRING,), STRING, cost=_walk)
def _quote(text: str) -> str:
    escaped = _QUOTED.sub(lambda match: _ESCAPED.get(match.group(), "\\" + match.group()), text)
    return f'"{escaped}"'
