"""Renders objects in the requested form. The common case returns the cached bytes unchanged."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import orjson
import yaml
from msgspec import Struct

from alcove.api.encode import encode, splice
from alcove.api.ids import Revision
from alcove.api.kind import Kind, PrinterColumn
from alcove.api.objects import Object
from alcove.apiserver import nodes
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.negotiate import ResponseForm
from alcove.http.messages import SLICE_BYTES, BodyParts


class ObjectView(Struct, frozen=True):
    """A form in which objects of a kind are rendered; watchers with equal views share the rendered bytes."""

    kind: Kind
    form: ResponseForm
    include: str = "Metadata"
    """What a table's rows carry of the object: None, Metadata or Object."""
    narrowed: nodes.NodeView | None = None
    """Nodes, reduced to what a tenant may see."""
    meta_version: str = "meta.k8s.io/v1"
    """Of a table or a partial object."""

    @property
    def is_verbatim(self) -> bool:
        """Whether the stored bytes are the response."""
        return self.form is ResponseForm.JSON and self.kind.is_stored_version and self.narrowed is None

    @property
    def cache_key(self) -> tuple[str, str, str, str, nodes.NodeView | None, str]:
        kind = self.kind
        return (kind.group, kind.version, self.form.value, self.include, self.narrowed, self.meta_version)

    @property
    def content_type(self) -> bytes:
        return b"application/yaml" if self.form is ResponseForm.YAML else b"application/json"


def complete(kind: Kind, entry: CacheEntry) -> CacheEntry:
    """The entry with the defaults that its kind's definition got after the object was written."""
    completion = kind.completion
    if completion is None or entry.complete_for == completion.number:
        return entry
    obj = entry.decode()
    completion.apply(obj)
    body = encode(obj)
    if splice(body, entry.revision) == entry.body:
        entry.complete_for = completion.number
        return entry
    return CacheEntry(entry.key, entry.revision, body)


def converted(kind: Kind, entry: CacheEntry) -> Object:
    """The object at the kind's version, as a copy that the caller may change."""
    obj = entry.decode()
    if kind.from_storage is not None:
        obj = kind.from_storage(obj)
    obj["apiVersion"], obj["kind"] = kind.api_version, kind.kind
    return obj


def render(view: ObjectView, entry: CacheEntry) -> bytes:
    """One object as a whole response body."""
    entry = complete(view.kind, entry)
    if view.is_verbatim:
        return entry.body
    if view.narrowed is not None:
        entry = nodes.shown(entry, view.narrowed)
    if view.form is ResponseForm.JSON:
        return orjson.dumps(converted(view.kind, entry))
    if view.form is ResponseForm.TABLE:
        return orjson.dumps({**_table(view, entry.revision, {}), "rows": [_row(view, entry, time.time())]})
    return encode_form(
        view, _metadata(view, entry) if view.form is ResponseForm.METADATA else converted(view.kind, entry)
    )


def render_item(view: ObjectView, entry: CacheEntry) -> bytes:
    """One object as an item of a list."""
    entry = complete(view.kind, entry)
    if view.is_verbatim:
        return entry.body
    if view.form is ResponseForm.METADATA:
        return orjson.dumps(_metadata(view, entry))
    return orjson.dumps(converted(view.kind, entry))


def render_list(
    view: ObjectView, entries: Sequence[CacheEntry], revision: Revision, meta: Object
) -> bytes | BodyParts:
    """A list: the encoded items joined. `meta` has the list's metadata besides the revision.

    A list may have tens of megabytes. It is never encoded or joined as a whole, which would take long.
    """
    list_meta = {"resourceVersion": str(revision), **meta}
    if view.kind.completion is not None:
        entries = [complete(view.kind, entry) for entry in entries]
    if view.form is ResponseForm.TABLE:
        now = time.time()
        return _joined(
            _table(view, revision, meta), "rows", [orjson.dumps(_row(view, entry, now)) for entry in entries]
        )
    if view.form is ResponseForm.METADATA:
        names = (view.meta_version, "PartialObjectMetadataList")
    else:
        names = (view.kind.api_version, view.kind.list_kind or view.kind.kind + "List")
    shown = {"kind": names[1], "apiVersion": names[0], "metadata": list_meta}
    if view.form is ResponseForm.YAML:
        return yaml_of({**shown, "items": [orjson.loads(render_item(view, entry)) for entry in entries]})
    if view.is_verbatim:
        return _joined(shown, "items", [entry.body for entry in entries])
    return _joined(shown, "items", [render_item(view, entry) for entry in entries])


def _joined(head: Object, field: str, items: list[bytes]) -> bytes | BodyParts:
    """The encoded object `head` with one more field, which has the items."""
    opening, closing = b'%b,"%b":[' % (orjson.dumps(head)[:-1], field.encode()), b"]}"
    if not items:
        return opening + closing
    items[0] = opening + items[0]
    items[-1] += closing
    parts = BodyParts(items, b",")
    return parts if len(parts) > SLICE_BYTES else bytes(parts)


def encode_form(view: ObjectView, obj: Object) -> bytes:
    return yaml_of(obj) if view.form is ResponseForm.YAML else orjson.dumps(obj)


def yaml_of(obj: Object) -> bytes:
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(obj, Dumper=dumper, sort_keys=False, default_flow_style=False)
    return text.encode()


def _metadata(view: ObjectView, entry: CacheEntry) -> Object:
    meta = entry.decode()["metadata"]
    return {"kind": "PartialObjectMetadata", "apiVersion": view.meta_version, "metadata": meta}


# Tables


def _table(view: ObjectView, revision: Revision, meta: Object) -> Object:
    """A table without its rows."""
    return {
        "kind": "Table",
        "apiVersion": view.meta_version,
        "metadata": {"resourceVersion": str(revision), **meta},
        "columnDefinitions": [_definition(column) for column in view.kind.columns],
    }


def _definition(column: PrinterColumn) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _row(view: ObjectView, entry: CacheEntry, now: float) -> Object:
    obj = entry.object if view.kind.is_stored_version else converted(view.kind, entry)
    row: Object = {"cells": [_cell(column, obj, now) for column in view.kind.columns]}
    if view.include == "Metadata":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": view.meta_version,
            "metadata": obj["metadata"],
        }
    elif view.include == "Object":
        row["object"] = obj
    return row


def _cell(column: PrinterColumn, obj: Object, now: float) -> Any:
    try:
        return column.value(obj, now)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        # One odd object must not hide the others from `kubectl get`.
        return "<unknown>"
