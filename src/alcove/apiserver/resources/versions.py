"""Objects at the version that is asked for: the one stored, one a function away, or one a webhook away."""

from __future__ import annotations

from collections.abc import Sequence

from alcove.api.encode import encode
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.apiserver.cache.entries import Entry
from alcove.apiserver.call import Call
from alcove.apiserver.services import Services


def stored_kind(services: Services, call: Call) -> Kind:
    """The kind at the version that is stored: defaults, checks and admission see that one."""
    kind = call.kind
    if kind.storage_version in ("", kind.version) and kind.stored_resource is None:
        return kind
    found = services.kinds.stored(call.tenant, kind.storage_resource)
    assert found is not None, f"{kind.gvk} is stored as a kind that is not known"
    return found


async def to_storage(kind: Kind, stored: Kind, obj: Object) -> Object:
    """`obj`, which is at `kind`'s version, as it is stored."""
    if kind is stored:
        return obj
    if kind.convert is not None:
        return (await kind.convert([obj], stored.api_version))[0]
    if kind.to_storage is not None:
        obj = kind.to_storage(obj)
    obj["apiVersion"], obj["kind"] = stored.api_version, stored.kind
    return obj


async def from_storage(kind: Kind, obj: Object) -> Object:
    """A stored object, at whatever version it was written, at `kind`'s; the object may be changed."""
    if obj["apiVersion"] == kind.api_version and kind.from_storage is None:
        return obj
    if kind.convert is not None:
        return (await kind.convert([obj], kind.api_version))[0]
    if kind.from_storage is not None:
        obj = kind.from_storage(obj)
    obj["apiVersion"], obj["kind"] = kind.api_version, kind.kind
    return obj


async def entries_at(kind: Kind, entries: Sequence[Entry]) -> list[Entry]:
    """Entries whose bytes are at `kind`'s version: for kinds that convert by webhook, asked once for all."""
    assert kind.convert is not None
    converted = await kind.convert([entry.decode() for entry in entries], kind.api_version)
    return [
        Entry(entry.key, entry.revision, encode(obj)) for entry, obj in zip(entries, converted, strict=True)
    ]
