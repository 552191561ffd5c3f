r"""JSONPath as printer columns and selectable fields use it: `.status.conditions[?(@.type=="Ready")].status`.

Supported are fields (`.a`, `['a']`, `.a\.b`), indices and slices of lists, `*`, recursive descent (`..a`),
unions, and filters that compare a path with a literal or another path, or test whether it exists. A path is
compiled once; evaluation is linear in the values it visits, and bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Step = Callable[[Any], Iterable[Any]]
Find = Callable[[Any], list[Any]]

LENGTH_MAX = 512
VALUES_MAX = 1_000
"""Maximum number of values that one path may yield."""
_FIELD = re.compile(r"(?:\\.|[^.\[\]\\{}()*?@,'\"=!<> ])+")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_QUOTED = re.compile(r"'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\"")
_SLICE = re.compile(r"(-?[0-9]*)(?::(-?[0-9]*))?(?::(-?[0-9]*))?")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda one, other: bool(one == other),
    "!=": lambda one, other: bool(one != other),
    "<=": lambda one, other: bool(one <= other),
    ">=": lambda one, other: bool(one >= other),
    "<": lambda one, other: bool(one < other),
    ">": lambda one, other: bool(one > other),
}


class JsonPathError(ValueError):
    pass


def compile_path(text: str) -> Find:
    """Compile `text` (with or without braces) to a function that finds its values. Raises JsonPathError."""
    if len(text) > LENGTH_MAX:
        raise JsonPathError(f"path is longer than {LENGTH_MAX} characters")
    bare = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    reader = _Reader(bare.removeprefix("$"))
    steps = reader.steps()
    if not reader.at_end:
        raise JsonPathError(f"unexpected text in path: {reader.rest}")
    return lambda value: _run(steps, value)


def _run(steps: list[Step], value: Any) -> list[Any]:
    values = [value]
    for step in steps:
        following: list[Any] = []
        for each in values:
            following.extend(step(each))
            if len(following) > VALUES_MAX:
                return following[:VALUES_MAX]
        values = following
    return values


class _Reader:
    """Parses a path from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._text)

    @property
    def rest(self) -> str:
        return self._text[self._at :]

    def _accept(self, mark: str) -> bool:
        if self._text.startswith(mark, self._at):
            self._at += len(mark)
            return True
        return False

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self._at)
        if match is not None and match.end() > self._at:
            self._at = match.end()
            return match
        return None

    def _spaces(self) -> None:
        while self._accept(" "):
            pass

    def steps(self) -> list[Step]:
        steps: list[Step] = []
        while not self.at_end:
            if self._accept(".."):
                steps.append(_descendants)
                if not self.at_end and self._text[self._at] != "[":
                    steps.append(self._field())
            elif self._accept("."):
                if not self.at_end and self._text[self._at] != "[":
                    steps.append(self._field())
            elif self._accept("["):
                steps.append(self._bracket())
            elif not steps and (match := self._match(_FIELD)):
                steps.append(_field_step(_plain(match.group())))
            else:
                break
        return steps

    def _field(self) -> Step:
        if self._accept("*"):
            return _children
        match = self._match(_FIELD)
        if match is None:
            raise JsonPathError(f"expected a field name at: {self.rest}")
        return _field_step(_plain(match.group()))

    def _bracket(self) -> Step:
        self._spaces()
        if self._accept("*"):
            step: Step = _children
        elif self._accept("?("):
            step = self._filter()
        else:
            step = self._union()
        self._spaces()
        if not self._accept("]"):
            raise JsonPathError(f"unterminated array at: {self.rest}")
        return step

    def _union(self) -> Step:
        parts = [self._member()]
        while True:
            self._spaces()
            if not self._accept(","):
                break
            self._spaces()
            parts.append(self._member())
        if len(parts) == 1:
            return parts[0]
        return lambda value: (each for part in parts for each in part(value))

    def _member(self) -> Step:
        if match := self._match(_QUOTED):
            return _field_step(_plain(match[1] if match[1] is not None else match[2]))
        if match := self._match(_SLICE):
            return _slice_step(*match.groups())
        raise JsonPathError(f"invalid array index at: {self.rest}")

    def _filter(self) -> Step:
        left = self._operand()
        self._spaces()
        operator = next((mark for mark in _OPERATORS if self._accept(mark)), None)
        self._spaces()
        right = self._operand() if operator else None
        self._spaces()
        if not self._accept(")"):
            raise JsonPathError(f"unterminated filter at: {self.rest}")
        test = _OPERATORS[operator] if operator else None

        def step(value: Any) -> Iterator[Any]:
            for item in value if isinstance(value, list) else ():
                if _holds(left(item), test, right(item) if right else []):
                    yield item

        return step

    def _operand(self) -> Find:
        """Parse a path below the item (`@.a.b`) or a literal."""
        self._spaces()
        if self._accept("@"):
            steps: list[Step] = []
            while not self.at_end and self._text[self._at] in ".[":
                if self._accept("["):
                    steps.append(self._bracket())
                else:
                    self._accept(".")
                    steps.append(self._field())
            return lambda value: _run(steps, value)
        if match := self._match(_QUOTED):
            text = _plain(match[1] if match[1] is not None else match[2])
            return lambda _value: [text]
        if match := self._match(_NUMBER):
            number = float(match.group()) if "." in match.group() else int(match.group()[:32])
            return lambda _value: [number]
        for word, constant in (("true", True), ("false", False), ("null", None)):
            if self._accept(word):
                return lambda _value: [constant]
        raise JsonPathError(f"expected a path or a literal at: {self.rest}")


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _holds(left: list[Any], test: Callable[[Any, Any], bool] | None, right: list[Any]) -> bool:
    if test is None:
        return bool(left)
    if not left or not right or (type(left[0]) is bool) is not (type(right[0]) is bool):
        return False
    try:
        return test(left[0], right[0])
    except TypeError:  # The values cannot be ordered.
        return False


def _field_step(name: str) -> Step:
    def step(value: Any) -> Iterable[Any]:
        return (value[name],) if isinstance(value, dict) and name in value else ()

    return step


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _descendants(value: Any) -> Iterable[Any]:
    """Yield the value and everything in it, outermost first."""
    values: list[Any] = []
    pending = [value]
    while pending and len(values) < VALUES_MAX:
        current = pending.pop()
        values.append(current)
        pending.extend(reversed(list(_children(current))))
    return values


def _slice_step(first: str | None, second: str | None, third: str | None) -> Step:
    if second is None and third is None:
        if not first or first == "-":
            raise JsonPathError("invalid array index")
        index = int(first[:16])

        def at(value: Any) -> Iterable[Any]:
            inside = isinstance(value, list) and -len(value) <= index < len(value)
            return (value[index],) if inside else ()

        return at
    start, stop, stride = (
        int(part[:16]) if part and part != "-" else None for part in (first, second, third)
    )
    if stride is not None and stride <= 0:
        raise JsonPathError("step must be > 0")
    return lambda value: value[start:stop:stride] if isinstance(value, list) else ()
