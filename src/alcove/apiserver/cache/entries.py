"""One object in the cache, and one change of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from sys import intern
from typing import Any

import msgspec
import orjson
from msgspec import Struct

from alcove.api.encode import splice
from alcove.api.ids import GroupResource, Key, Revision
from alcove.api.objects import Object
from alcove.api.resources import ENDPOINT_SLICES, PODS
from alcove.api.shared_bodies import PackedBody, SharedBodies
from alcove.apiserver.cache.recent import RecentEntries

_VPC_ENDPOINTS = GroupResource("mizar.com", "endpoints")
INDEXED_FIELDS: dict[GroupResource, tuple[str, ...]] = {
    PODS: ("spec.nodeName",),
    _VPC_ENDPOINTS: ("spec.droplet", "spec.vni", "spec.net"),
}
"""Fields by which objects and watchers are indexed: a node's agent watches the pods and endpoints of its node, the
endpoints of each network that has a pod there, and those of the subnets that it is a bouncer of."""


class IndexedValue(Struct, frozen=True):
    """A value of one of the resource's INDEXED_FIELDS."""

    position: int
    value: str


def indexed_value(resource: GroupResource, exact: Mapping[str, str]) -> IndexedValue | None:
    """The value that a field selector requires of an indexed field; None if it requires none."""
    for position, field in enumerate(INDEXED_FIELDS.get(resource, ())):
        if field in exact:
            return IndexedValue(position, exact[field])
    return None


_NO_LABELS: dict[str, str] = {}
LABELS_KEPT = 4096
"""Sets of labels that new entries may share."""
SHARED_LABELS_MAX = 32
"""Labels of such a set: an object may have thousands, which nobody would share."""


class _Metadata(Struct):
    labels: dict[str, str] | None = None


class _Parts(Struct):
    metadata: _Metadata

    @property
    def indexed(self) -> tuple[object, ...]:
        """The values of the resource's INDEXED_FIELDS."""
        return ()


class _PodSpec(Struct, rename="camel"):
    node_name: str | None = None


class _Pod(_Parts):
    spec: _PodSpec | None = None

    @property
    def indexed(self) -> tuple[object, ...]:
        return (self.spec.node_name,) if self.spec is not None else (None,)


class _EndpointSpec(Struct):
    droplet: str | None = None
    vni: Any = None
    net: str | None = None


class _Endpoint(_Parts):
    spec: _EndpointSpec | None = None

    @property
    def indexed(self) -> tuple[object, ...]:
        return (
            (self.spec.droplet, self.spec.vni, self.spec.net) if self.spec is not None else (None, None, None)
        )


class _Uid(Struct):
    uid: str = ""


class _Identified(Struct):
    metadata: _Uid


_LABELS = msgspec.json.Decoder(_Parts)
_UIDS = msgspec.json.Decoder(_Identified)
_PARTS: dict[GroupResource, msgspec.json.Decoder[Any]] = {
    PODS: msgspec.json.Decoder(_Pod),
    _VPC_ENDPOINTS: msgspec.json.Decoder(_Endpoint),
    ENDPOINT_SLICES: _LABELS,  # All of a namespace are searched by label for each call of a service.
}


class CacheEntry:
    """One state of an object. Immutable, except for cached values that are derived from it."""

    __slots__ = ("_body", "_labels", "_object", "_recent", "complete_for", "indexed", "key", "revision")

    def __init__(
        self, key: Key, revision: Revision, body: bytes, recent: RecentEntries | None = None
    ) -> None:
        """`body` is the stored JSON, without resourceVersion. `recent` is told when the entry is decoded."""
        self.key = key
        self.revision = revision
        self._body: bytes | PackedBody = splice(body, revision)
        self._recent = recent
        self._object: Object | None = None
        self.complete_for = 0
        """`Completion.number` of the kind's definition for which the object lacks no default."""
        self._labels: dict[str, str] | None = None
        self.indexed: tuple[str, ...] = ()
        """The values of the resource's INDEXED_FIELDS; empty for one that is not set."""
        decoder = _PARTS.get(key.resource)
        if decoder is not None:
            self._decode_parts(decoder, body)

    def _decode_parts(self, decoder: msgspec.json.Decoder[Any], body: bytes) -> None:
        """Only these parts are decoded: objects may be large."""
        try:
            parts = decoder.decode(body)
            indexed = parts.indexed
        except msgspec.ValidationError:
            # Written by a version that checked less: it has no labels and is in no index.
            parts, indexed = _Parts(_Metadata()), (None,) * len(INDEXED_FIELDS.get(self.key.resource, ()))
        self._labels = _shared_labels(parts.metadata.labels)
        self.indexed = tuple(intern(str(value)) if value is not None else "" for value in indexed)

    @property
    def labels(self) -> dict[str, str]:
        """Shared by all entries with these labels: do not change it."""
        if self._labels is None:
            self._decode_parts(_LABELS, self.body)
        assert self._labels is not None
        return self._labels

    @property
    def body(self) -> bytes:
        """The encoded object."""
        body = self._body
        return body if isinstance(body, bytes) else body.unpack(self.key.tenant, self.key.name)

    def unpack(self) -> bytes:
        """The encoded object, which is kept whole for its next reads as one that was just written. Use it from the cache's
        event loop only."""
        body = self._body
        if not isinstance(body, bytes):
            body = self._body = body.unpack(self.key.tenant, self.key.name)
            if self._recent is not None:
                self._recent.keep_whole(self)
        return body

    @property
    def size(self) -> int:
        """About the length of the body."""
        body = self._body
        return len(body) if isinstance(body, bytes) else body.size

    @property
    def length(self) -> int:
        """The length of the body, exactly."""
        return len(self.body)

    @property
    def object(self) -> Object:
        """The decoded object, cached and shared by all readers: do not change it."""
        found = self._object
        if found is None:
            found = self._object = orjson.loads(self.body)
            if self._recent is not None:
                self._recent.decoded(self)
        return found

    def pack(self, bodies: SharedBodies) -> None:
        """Shares what the body has in common with others."""
        if isinstance(self._body, bytes):
            self._body = bodies.pack(self._body, self.key.tenant, self.key.name)

    @property
    def node(self) -> str:
        """The node of a pod; empty if it has none."""
        return self.indexed[0]

    @property
    def uid(self) -> str:
        """The object's uid, for which it is not decoded: it may be large."""
        return _UIDS.decode(self.body).metadata.uid

    def forget_decoded(self) -> None:
        """Drops the decoded object, for entries that will rarely be read again."""
        self._object = None

    def decode(self) -> Object:
        """A decoded copy that the caller may change."""
        return orjson.loads(self.body)  # type: ignore[no-any-return]


def _shared_labels(labels: dict[str, str] | None) -> dict[str, str]:
    # Labels repeat over thousands of objects, most of them together with the same others.
    if not labels:
        return _NO_LABELS
    return _labels_of(tuple(labels.items())) if len(labels) <= SHARED_LABELS_MAX else labels


@lru_cache(maxsize=LABELS_KEPT)
def _labels_of(items: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {intern(key): intern(value) for key, value in items}


class CacheEventType(Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class CacheEvent:
    """One change, with the state before it and the encoded bytes that its watchers share."""

    __slots__ = ("cost", "encoded", "entry", "kind", "previous")

    def __init__(self, kind: CacheEventType, entry: CacheEntry, previous: CacheEntry | None) -> None:
        self.kind = kind
        self.entry = entry
        """The new state; for DELETED the last one, at the revision of the deletion."""
        self.previous = previous
        self.encoded: dict[Any, bytes] | None = None
        """Encoded lines by (type, view), rendered on first use; None if there are none."""
        self.cost = 0
        """Bytes that the event is counted with as history."""

    @property
    def revision(self) -> Revision:
        return self.entry.revision

    def settle(self) -> None:
        """Called after all watchers got the event: drops what is not needed for history."""
        self.encoded = None
        if self.previous is not None:
            self.previous.forget_decoded()
        if self.kind is CacheEventType.DELETED:
            self.entry.forget_decoded()
