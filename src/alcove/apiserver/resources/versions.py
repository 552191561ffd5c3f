"""Objects at the version that is asked for: the one stored, one a function away, or one a webhook away.

Versions of a stock kind are names for one thing, so a write is worked on at the stored one. Each version of a
custom resource has a schema of its own: a write is pruned, defaulted, admitted and checked at the request's,
and converted when nothing is left to do but to store it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from alcove.api.encode import encode
from alcove.api.errors import NotFound
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.schema.body import parse_json
from alcove.api.schema.prune import prune
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.render import complete
from alcove.apiserver.services import ApiServerServices


def stored_kind(services: ApiServerServices, call: ApiCall) -> Kind:
    """The kind at the version that is stored."""
    kind = call.kind
    if kind.storage_version in ("", kind.version) and kind.stored_resource is None:
        return kind
    found = services.kinds.stored(call.tenant, kind.storage_resource)
    if found is None:
        # Its CRD went while this request was waiting.
        raise NotFound.path()
    return found


def working_kind(services: ApiServerServices, call: ApiCall) -> Kind:
    """The kind at the version that defaults, checks and admission see."""
    return stored_kind(services, call) if call.kind.definition else call.kind


async def to_storage(kind: Kind, stored: Kind, obj: Object) -> Object:
    """`obj`, which is at `kind`'s version, as it is stored."""
    if kind is stored:
        return obj
    if kind.convert is not None:
        obj = (await kind.convert([obj], stored.api_version))[0]
    elif kind.to_storage is not None:
        obj = kind.to_storage(obj)
    obj["apiVersion"], obj["kind"] = stored.api_version, stored.kind
    if not kind.definition:
        prune(stored.schema, obj)
        # It would be completed by these whenever it is read.
        stored.strategy.default(obj)
    return obj


async def as_stored(services: ApiServerServices, call: ApiCall, kind: Kind, obj: Object) -> Object:
    """`obj`, which is at `kind`'s version and stays as it is, as the store keeps it."""
    if kind.storage_version in ("", kind.version):
        return obj
    stored = stored_kind(services, call)
    return await to_storage(kind, stored, parse_json(encode(obj)))


def is_settled(kind: Kind, entry: CacheEntry) -> bool:
    """Whether the store has the object at the version that it would be stored in now."""
    if kind.from_storage is None and kind.convert is None:
        return True
    version: str = entry.decode()["apiVersion"]
    return version.rpartition("/")[2] == (kind.storage_version or kind.version)


async def from_storage(kind: Kind, obj: Object) -> Object:
    """A stored object, at whatever version it was written, at `kind`'s; the object may be changed."""
    if kind.completion is not None:
        kind.completion.apply(obj)
    if obj["apiVersion"] == kind.api_version and kind.from_storage is None:
        return obj
    if kind.convert is not None:
        return (await kind.convert([obj], kind.api_version))[0]
    if kind.from_storage is not None:
        obj = kind.from_storage(obj)
    obj["apiVersion"], obj["kind"] = kind.api_version, kind.kind
    return obj


async def twice(kind: Kind, entry: CacheEntry) -> tuple[Object, Object]:
    """The stored object at `kind`'s version, and a copy of it to be changed; converted but once."""
    one = await from_storage(kind, entry.decode())
    if kind.convert is None:
        return one, await from_storage(kind, entry.decode())
    return one, copy.deepcopy(one)


async def entries_at(kind: Kind, entries: Sequence[CacheEntry]) -> list[CacheEntry]:
    """Entries whose bytes are at `kind`'s version: for kinds that convert by webhook, asked once for all."""
    assert kind.convert is not None
    converted = await kind.convert([complete(kind, entry).decode() for entry in entries], kind.api_version)
    found = [
        CacheEntry(entry.key, entry.revision, encode(obj))
        for entry, obj in zip(entries, converted, strict=True)
    ]
    if kind.completion is not None:
        for entry in found:
            # What the version converted to would add to new objects, it does not add to this one.
            entry.complete_for = kind.completion.number
    return found
