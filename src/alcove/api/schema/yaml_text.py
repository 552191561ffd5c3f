"""Parses YAML as Kubernetes does: one document, the types of JSON, and a bounded result.

The value is built from the parser's events, without recursion. Aliases are copied, up to a bound on all
copies together, so a small text never becomes a large value. Scalars resolve as in Kubernetes' parser (YAML
1.1 without times and base 60).
"""

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml
from msgspec import Struct, field

from alcove.api.schema.paths import REPORTED_MAX, show

EVENTS_MAX = 50_000
"""Maximum number of events (scalars, starts and ends of lists and maps) of one text: parsing one takes some
microseconds, and blocks the event loop."""
COPIES_MAX = 10_000
"""Maximum number of values created by aliases, over the whole text."""

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"))
_FALSE = frozenset(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"))
_INTEGER = re.compile(r"[-+]?(?:0x[0-9a-fA-F]+|0b[01]+|0o?[0-7]+|[1-9][0-9_]*|0)").fullmatch
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?").fullmatch
_DIGITS_MAX = 400
_TAG = "tag:yaml.org,2002:"


class YamlError(Exception):
    """The text is not YAML, or uses YAML that Kubernetes does not accept."""


class Document(Struct, frozen=True):
    value: Any
    duplicates: list[str]
    """Messages for duplicate keys, with their lines as in Kubernetes; the last value is used."""


def parse(text: bytes, nesting_max: int) -> Document:
    """Parse the one document of `text`; an empty text is null. Raises YamlError."""
    builder = _Builder(nesting_max)
    try:
        for event in _events(text):
            builder.take(event)
    except (yaml.YAMLError, UnicodeError) as error:
        raise YamlError(" ".join(str(error).split())) from None
    return Document(builder.value, builder.duplicates)


def _events(text: bytes) -> Iterator[yaml.Event]:
    loader = yaml.CSafeLoader(text)
    try:
        while loader.check_event():
            event = loader.get_event()
            assert event is not None, "checked"
            yield event
    finally:
        loader.dispose()


class _Open(Struct, eq=False):
    """A list or map that is not complete yet."""

    value: Any
    anchor: str | None
    line: int
    """The line it starts at."""
    key: str | None = None
    """The key of the next value; None: the next value is a key."""
    merged: list[Any] = field(default_factory=list)
    """Maps to be merged in (`<<`); the map's own keys take precedence."""


class _Builder:
    def __init__(self, nesting_max: int) -> None:
        self.value: Any = None
        self.duplicates: list[str] = []
        self._nesting_max = nesting_max
        self._events = 0
        self._documents = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, Any] = {}
        self._copies = 0

    def take(self, event: Any) -> None:
        self._events += 1
        if self._events > EVENTS_MAX:
            raise YamlError(f"more than {EVENTS_MAX} nodes; send it as JSON")
        match event:
            case yaml.ScalarEvent():
                self._add(self._scalar(event), event.anchor, _line(event))
            case yaml.MappingStartEvent():
                self._start({}, event.anchor, _line(event))
            case yaml.SequenceStartEvent():
                self._start([], event.anchor, _line(event))
            case yaml.CollectionEndEvent():
                self._end()
            case yaml.AliasEvent():
                self._add(self._alias(event.anchor), None, _line(event))
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise YamlError("more than one document")

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        plain, _quoted = event.implicit
        is_key = bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None
        if is_key and plain and event.value == "<<":
            return _MERGE
        if event.tag in (None, "!", f"{_TAG}str") or (event.tag and not event.tag.startswith(_TAG)):
            return _resolve(event.value) if plain and event.tag is None else event.value
        return _tagged(event.tag.removeprefix(_TAG), event.value)

    def _alias(self, anchor: str | None) -> Any:
        if anchor is None or anchor not in self._anchors:
            raise YamlError(f"unknown alias *{anchor}")
        return self._copy(self._anchors[anchor], len(self._open) + 1)

    def _copy(self, value: Any, level: int) -> Any:
        """Return a copy for nesting depth `level`, so that the result shares no parts."""
        self._copies += 1
        if self._copies > COPIES_MAX:
            raise YamlError(f"aliases expand to more than {COPIES_MAX} values")
        if not isinstance(value, dict | list):
            return value
        self._check_nesting(level)
        if isinstance(value, dict):
            return {key: self._copy(inner, level + 1) for key, inner in value.items()}
        return [self._copy(inner, level + 1) for inner in value]

    def _start(self, value: Any, anchor: str | None, line: int) -> None:
        self._check_nesting(len(self._open) + 1)
        self._open.append(_Open(value, anchor, line))

    def _check_nesting(self, level: int) -> None:
        if level > self._nesting_max:
            raise YamlError(f"nested deeper than {self._nesting_max} levels")

    def _end(self) -> None:
        done = self._open.pop()
        for merged in done.merged:
            for key, inner in merged.items():
                done.value.setdefault(key, inner)
        self._add(done.value, done.anchor, done.line)

    def _add(self, value: Any, anchor: str | None, line: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = value
        if not self._open:
            self.value = value
        elif isinstance(self._open[-1].value, list):
            self._open[-1].value.append(value)
        else:
            self._add_to_map(self._open[-1], value, line)

    def _add_to_map(self, outer: _Open, value: Any, line: int) -> None:
        if outer.key is None:
            outer.key = _key(value)
            return
        if outer.key == _MERGE:
            outer.merged += _mergeable(value)
        else:
            if outer.key in outer.value and len(self.duplicates) < REPORTED_MAX:
                self.duplicates.append(f'line {line}: key "{show([outer.key])}" already set in map')
            outer.value[outer.key] = value
        outer.key = None


class _Merge(str):
    """The unquoted key `<<`; equal to no other string."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


_MERGE = _Merge("<<")


def _line(event: yaml.Event) -> int:
    """Return the line number, starting at one."""
    assert event.start_mark is not None, "the parser marks all that it reads"
    return int(event.start_mark.line) + 1


def _mergeable(value: Any) -> list[Any]:
    maps = value if isinstance(value, list) else [value]
    if not all(isinstance(inner, dict) for inner in maps):
        raise YamlError("only maps can be merged with <<")
    return maps


def _key(value: Any) -> str:
    """Convert a key to a string as JSON requires: numbers and booleans become their JSON text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise YamlError("a key must be a string, number or boolean")


def _resolve(text: str) -> Any:
    """Return the value of a plain scalar, with its type derived from the text."""
    if text in _NULLS:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text[0] in "+-.0123456789" and len(text) <= _DIGITS_MAX:
        if _INTEGER(text):
            return _integer(text)
        if _FLOAT(text):
            return _float(text)
    return text


def _float(text: str) -> int | float | str:
    number = float(text)
    if not math.isfinite(number):
        return text  # JSON has no infinity.
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _integer(text: str) -> int | float:
    digits = text.replace("_", "")
    unsigned = digits.lstrip("+-")
    is_octal = len(unsigned) > 1 and unsigned[0] == "0" and unsigned[1].isdigit()
    number = int(digits, 8) if is_octal else int(digits, 0)
    return number if -(2**63) <= number < 2**64 else float(number)


def _tagged(tag: str, text: str) -> Any:
    value = _resolve(text)
    kinds = {"int": int, "float": int | float, "bool": bool, "null": type(None)}
    if tag not in kinds or not isinstance(value, kinds[tag]):
        raise YamlError(f"{text!r} cannot be decoded as !!{tag}")
    return value
