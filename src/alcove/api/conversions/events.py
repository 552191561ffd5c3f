"""Converts Event `events.k8s.io/v1` to and from core `v1`, the storage version: only field names differ."""

from alcove.api.objects import Object

_STORED_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_SERVED_NAMES = {stored: served for served, stored in _STORED_NAMES.items()}


def to_storage(obj: Object) -> Object:
    return {_STORED_NAMES.get(field, field): value for field, value in obj.items()} | {"apiVersion": "v1"}


def from_storage(obj: Object) -> Object:
    renamed = {_SERVED_NAMES.get(field, field): value for field, value in obj.items()}
    return renamed | {"apiVersion": "events.k8s.io/v1"}
