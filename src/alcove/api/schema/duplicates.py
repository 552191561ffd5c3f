"""Finds fields that a JSON text names twice, which a decoded object cannot tell any more."""

import json
from typing import Any

from alcove.api.schema.paths import REPORTED_MAX, FieldPath


class _Fields(list[tuple[str, Any]]):
    """An object as its fields in order, so that none hides another."""


def find(text: bytes) -> list[str]:
    """Paths of the fields given more than once (`spec.containers[0].image`), each told once.

    `text` is known to be JSON, not too deep. Most texts have no duplicates, so the paths are worked out
    only when a first, cheaper pass has seen one.
    """
    if not _has_any(text):
        return []
    found: dict[str, None] = {}
    _walk(_load(text, _Fields), None, found)
    return list(found)


def _has_any(text: bytes) -> bool:
    seen = False

    def hook(fields: list[tuple[str, Any]]) -> None:
        nonlocal seen
        if len(dict(fields)) != len(fields):
            seen = True

    _load(text, hook)
    return seen


def _load(text: bytes, hook: Any) -> Any:
    # Numbers stay texts: their values do not matter, and Python refuses to read very long ones.
    return json.loads(text, object_pairs_hook=hook, parse_int=str, parse_float=str)


def _walk(value: Any, path: FieldPath | None, found: dict[str, None]) -> None:
    if isinstance(value, _Fields):
        seen: set[str] = set()
        for field, inner in value:
            at = FieldPath(path, field)
            if field in seen and len(found) < REPORTED_MAX:
                found[str(at)] = None
            seen.add(field)
            _walk(inner, at, found)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _walk(inner, FieldPath(path, index), found)
