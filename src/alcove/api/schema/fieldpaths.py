"""Paths into a schema as rules and selectable fields write them: `.spec.color`, `.labels['a/b']`."""

import re
from typing import Any

Schema = dict[str, Any]

_STEP = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class PathError(ValueError):
    pass


def field_path(schema: Schema, text: str) -> str:
    """Return the path as errors show it (`spec.color`, `labels[a/b]`), checked against `schema`."""
    shown, position = "", 0
    current: Any = schema
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise PathError(f"expected [ or . but got: {text[position:]}")
        name = match[1] if match[1] is not None else re.sub(r"\\(.)", _unescaped, match[2])
        properties, values = current.get("properties"), current.get("additionalProperties")
        if properties:
            current = properties.get(name)
            shown += f".{name}" if shown else name
        else:
            current = values
            shown += f"[{name}]"
        if not isinstance(current, dict):
            raise PathError("does not refer to a valid field")
        position = match.end()
    return shown


def _unescaped(match: re.Match[str]) -> str:
    try:
        return _ESCAPES[match[1]]
    except KeyError:
        raise PathError(f"invalid string literal: invalid escape char \\{match[1]}") from None
