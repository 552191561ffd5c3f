"""The lines of a watch: events, bookmarks and errors."""

from __future__ import annotations

import orjson

from alcove.api.errors import ApiError, status
from alcove.api.ids import Revision
from alcove.apiserver.cache.entries import CacheEvent, CacheEventType
from alcove.apiserver.negotiate import ResponseForm
from alcove.apiserver.render import ObjectView, render


def encode(kind: CacheEventType, event: CacheEvent, view: ObjectView) -> bytes:
    """One line of a watch, rendered once for all watchers with an equal view."""
    cache_key = (kind, view.cache_key)
    lines = event.encoded
    if lines is None:
        lines = event.encoded = {}
    line = lines.get(cache_key)
    if line is None:
        line = lines[cache_key] = b'{"type":"%b","object":%b}\n' % (
            kind.value.encode(),
            render(view, event.entry),
        )
    return line


def error_event(error: ApiError) -> bytes:
    return b'{"type":"ERROR","object":%b}\n' % orjson.dumps(status(error))


def bookmark(view: ObjectView, revision: Revision, *, initial_end: bool = False) -> bytes:
    kind = view.kind
    meta: dict[str, object] = {"resourceVersion": str(revision), "creationTimestamp": None}
    if initial_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    names = {"kind": kind.kind, "apiVersion": kind.api_version}
    if view.form is ResponseForm.METADATA:
        names = {"kind": "PartialObjectMetadata", "apiVersion": view.meta_version}
    if view.form is ResponseForm.TABLE:
        obj: dict[str, object] = {
            "kind": "Table",
            "apiVersion": view.meta_version,
            "metadata": {"resourceVersion": str(revision)},
            "columnDefinitions": [],
            "rows": [{"cells": [], "object": {**names, "metadata": meta}}],
        }
    else:
        obj = {**names, "metadata": meta}
    return b'{"type":"BOOKMARK","object":%b}\n' % orjson.dumps(obj)
