"""Finds fields that occur twice in a JSON text, which the decoded object no longer shows."""

import json
from typing import Any

from alcove.api.schema.paths import REPORTED_MAX, FieldPath


class _Fields(list[tuple[str, Any]]):
    """An object as a list of its fields, so that duplicates are preserved."""


def find(text: bytes) -> list[str]:
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
