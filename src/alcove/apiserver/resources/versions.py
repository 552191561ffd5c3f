"""Conversion of objects between the stored version and the requested one, by a function or by a webhook.

All versions of a built-in kind represent the same object, so writes are processed at the stored version. Each
version of a custom resource has its own schema: a write is pruned, defaulted, admitted and validated at the
requested version, and converted just before it is stored.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from functools import partial

import orjson

from alcove.api.encode import encode
from alcove.api.errors import NotFound
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.schema.prune import prune
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.render import complete
from alcove.apiserver.services import ApiServerServices

BATCH_BYTES, BATCH_VALUES = 512 << 10, 50_000
"""Bytes and values of stored objects that are sent to a conversion webhook at once; more are sent one batch after the
other. A single object may have more."""


def stored_kind(services: ApiServerServices, call: ApiCall) -> Kind:
    """The kind at the version that is stored."""
    kind = call.kind
    if kind.storage_version in ("", kind.version) and kind.stored_resource is None:
        return kind
    stored = services.kinds.stored(call.tenant, kind.storage_resource)
    if stored is None:
        # Its CRD was deleted while this request was waiting.
        raise NotFound.path()
    return stored


def working_kind(services: ApiServerServices, call: ApiCall) -> Kind:
    """The kind at the version that defaulting, validation and admission see."""
    return stored_kind(services, call) if call.kind.definition else call.kind


async def to_storage(kind: Kind, stored: Kind, obj: Object) -> Object:
    """Converts `obj` from `kind`'s version to the stored one; `obj` may be changed."""
    if kind is stored:
        return obj
    if kind.convert is not None:
        obj = (await kind.convert([obj], stored.api_version))[0]
    elif kind.to_storage is not None:
        obj = kind.to_storage(obj)
    obj["apiVersion"], obj["kind"] = stored.api_version, stored.kind
    if not kind.definition:
        prune(stored.schema, obj)
        # Otherwise these defaults would be added at each read.
        stored.strategy.default(obj)
    return obj


async def as_stored(services: ApiServerServices, call: ApiCall, kind: Kind, obj: Object) -> Object:
    """`obj` converted from `kind`'s version to the stored one; `obj` is not changed."""
    if kind.storage_version in ("", kind.version):
        return obj
    stored = stored_kind(services, call)
    return await to_storage(kind, stored, orjson.loads(encode(obj)))


def is_at_storage_version(kind: Kind, entry: CacheEntry) -> bool:
    """Whether the object is stored at the current storage version."""
    if kind.from_storage is None and kind.convert is None:
        return True
    version: str = entry.decode()["apiVersion"]
    return version.rpartition("/")[2] == (kind.storage_version or kind.version)


async def from_storage(kind: Kind, obj: Object) -> Object:
    """Converts a stored object, at the version it was written with, to `kind`'s; `obj` may be changed."""
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


async def two_copies(
    services: ApiServerServices, call: ApiCall, kind: Kind, entry: CacheEntry
) -> tuple[Object, Object]:
    """The stored object at `kind`'s version, and a copy that may be changed. Calls a conversion webhook only
    once."""
    tenant, size = call.identity.tenant, entry.size
    first = await from_storage(kind, await services.threads.for_size(tenant, size, entry.decode))
    if kind.convert is None:
        return first, await from_storage(kind, await services.threads.for_size(tenant, size, entry.decode))
    return first, await services.threads.for_size(tenant, size, lambda: copy.deepcopy(first))


async def entries_at(
    services: ApiServerServices, call: ApiCall, entries: Sequence[CacheEntry]
) -> list[CacheEntry]:
    """The entries converted to the version of the call's kind, which has a conversion webhook. It is called once for
    all, unless they are large."""
    kind, tenant = call.kind, call.identity.tenant
    assert kind.convert is not None
    result: list[CacheEntry] = []
    with services.hub.buffers.reserving(tenant) as reserve:
        for batch in _batches(entries):
            size = sum(entry.size for entry in batch)
            objects = await services.threads.for_size(tenant, size, partial(_decoded, kind, batch))
            converted = await kind.convert(objects, kind.api_version)
            added = await services.threads.for_size(tenant, size, partial(_encoded, kind, batch, converted))
            reserve(sum(entry.size for entry in added))
            result += added
    return result


def _batches(entries: Sequence[CacheEntry]) -> Iterator[Sequence[CacheEntry]]:
    batch: list[CacheEntry] = []
    size = values = 0
    for entry in entries:
        # About as many, because some of these may be inside strings.
        count = entry.body.count(b",") + entry.body.count(b"{") + entry.body.count(b"[")
        if batch and (size + entry.size > BATCH_BYTES or values + count > BATCH_VALUES):
            yield batch
            batch, size, values = [], 0, 0
        batch.append(entry)
        size, values = size + entry.size, values + count
    if batch:
        yield batch


def _decoded(kind: Kind, entries: Sequence[CacheEntry]) -> list[Object]:
    return [complete(kind, entry).decode() for entry in entries]


def _encoded(kind: Kind, entries: Sequence[CacheEntry], converted: Sequence[Object]) -> list[CacheEntry]:
    result = [
        CacheEntry(entry.key, entry.revision, encode(obj))
        for entry, obj in zip(entries, converted, strict=True)
    ]
    if kind.completion is not None:
        for entry in result:
            # Defaults of the target version are not added to converted objects.
            entry.complete_for = kind.completion.number
    return result
