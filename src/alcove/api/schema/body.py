"""Parses request bodies, JSON or YAML, with bounded cost; every error is a BadRequest (400).

The result nests at most `NESTING_MAX` levels, so that later walks and encoders do not run out of stack, and
it shares no parts, so that it may be changed in place.
"""

import json
from typing import Any

import orjson

from alcove.api.errors import BadRequest, TooLarge
from alcove.api.schema import yaml_text
from alcove.api.schema.paths import REPORTED_MAX, FieldPath
from alcove.api.schema.yaml_text import YamlError

NESTING_MAX = 240
_BACKSLASH = ord("\\")
_TOO_DEEP = f"the body of the request is nested deeper than {NESTING_MAX} levels"
VALUES_MAX = 50_000
"""Maximum number of values (strings, numbers, lists, maps) in one body. So many take about ten milliseconds to
parse, during which the server does nothing else. Large CRDs in use are estimated to have half as many."""
_ENCODER_NESTING_MAX = 254
"""Maximum nesting that orjson can write; the difference is for wrappers of the object (lists, reviews)."""


def parse_json(text: bytes, duplicates: list[str] | None = None) -> Any:
    """Parse JSON. Paths of fields that occur twice are added to `duplicates`, if given. Raises BadRequest and
    TooLarge."""
    check_values(text)
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body of the request is not valid JSON: {error}") from None
    return _checked(value, text, duplicates)


def parse_yaml(text: bytes, duplicates: list[str] | None = None) -> Any:
    """Parse YAML with one document; otherwise like `parse_json`."""
    if text.startswith(b"{"):
        # `kubectl apply --server-side` declares YAML and sends JSON, which is YAML too and parses 100 times
        # faster.
        check_values(text)
        try:
            return _checked(orjson.loads(text), text, duplicates)
        except orjson.JSONDecodeError:
            pass
    try:
        document = yaml_text.parse(text, NESTING_MAX)
    except YamlError as error:
        raise BadRequest(f"the body of the request is not valid YAML: {error}") from None
    if duplicates is not None:
        duplicates += document.duplicates
    return document.value


def check_values(
    text: bytes, values_max: int = VALUES_MAX, message: str = "the body of the request has too many values"
) -> None:
    """Raise TooLarge if the JSON text has more values than that."""
    if count_values(text, values_max) >= values_max:
        raise TooLarge(f"{message}: more than {values_max}")


def count_values(text: bytes, values_max: int) -> int:
    """About how many values the JSON text has: at least `values_max` only if it has so many, below that what is inside
    strings may count too. Raises BadRequest if they are nested too deeply."""
    most = text.count(b",") + text.count(b"{") + text.count(b"[")
    if most < values_max:
        return most
    # Most of these may be inside strings.
    commas = containers = at = 0
    while at < len(text):
        quote = text.find(b'"', at)
        end = quote if quote >= 0 else len(text)
        commas += text.count(b",", at, end)
        containers += text.count(b"{", at, end) + text.count(b"[", at, end)
        if containers > (commas + 1) * NESTING_MAX:
            raise BadRequest(_TOO_DEEP)
        if commas + containers >= values_max:
            break
        at = _end_of_string(text, end + 1)
    return commas + containers


def _end_of_string(text: bytes, start: int) -> int:
    """The position after the string that starts there; the text's length if the string has no end."""
    at = start
    while (quote := text.find(b'"', at)) >= 0:
        first = quote
        while first > start and text[first - 1] == _BACKSLASH:
            first -= 1
        at = quote + 1
        if (quote - first) % 2 == 0:
            return at
    return len(text)


def _checked(value: Any, text: bytes, duplicates: list[str] | None) -> Any:
    # An opening bracket may also be inside a string: this only finds the texts that need no exact check.
    if text.count(b"{") + text.count(b"[") > NESTING_MAX and not _is_shallow(value):
        raise BadRequest(_TOO_DEEP)
    if duplicates is not None and not _is_compact(value, text):
        duplicates += [f'duplicate field "{path}"' for path in _duplicates(text)]
    return value


def _is_shallow(value: Any) -> bool:
    for _ in range(_ENCODER_NESTING_MAX - NESTING_MAX):
        value = [value]
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return False
    return True


def _is_compact(value: Any, text: bytes) -> bool:
    """Whether the text is exactly the compact encoding of its value, and therefore has no duplicate fields.

    This is the common case: clients written in Go, kubectl included, send no spaces. The test costs a
    twentieth of a search for duplicates.
    """
    written = orjson.dumps(value)
    return written == text or written == text.rstrip()


class _Fields(list[tuple[str, Any]]):
    """An object as a list of its fields, so that duplicates are preserved."""


def _duplicates(text: bytes) -> list[str]:
    """Return the paths of fields that occur more than once (`spec.containers[0].image`), each path once.

    `text` must be valid JSON of bounded depth. Most texts have no duplicates, so paths are computed only if a
    first, cheaper pass has found one.
    """
    if not _has_any(text):
        return []
    paths: dict[str, None] = {}
    _walk(_load(text, _Fields), None, paths)
    return list(paths)


def _has_any(text: bytes) -> bool:
    seen = False

    def hook(fields: list[tuple[str, Any]]) -> None:
        nonlocal seen
        if len(dict(fields)) != len(fields):
            seen = True

    _load(text, hook)
    return seen


def _load(text: bytes, hook: Any) -> Any:
    # Numbers stay strings: their values do not matter, and Python raises on very long ones.
    return json.loads(text, object_pairs_hook=hook, parse_int=str, parse_float=str)


def _walk(value: Any, path: FieldPath | None, paths: dict[str, None]) -> None:
    if isinstance(value, _Fields):
        seen: set[str] = set()
        for field, inner in value:
            at = FieldPath(path, field)
            if field in seen and len(paths) < REPORTED_MAX:
                paths[str(at)] = None
            seen.add(field)
            _walk(inner, at, paths)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _walk(inner, FieldPath(path, index), paths)
