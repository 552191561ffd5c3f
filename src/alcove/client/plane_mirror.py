"""One plane's part of a mirror: its encoded objects by tenant, and their indexes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from sys import intern

import msgspec
import orjson
from msgspec import Struct

from alcove.api.ids import Revision, TenantId
from alcove.api.moved_objects import has_moved
from alcove.api.objects import Object
from alcove.api.shared_bodies import PackedBody, SharedBodies
from alcove.client import mirror_entries, one_or_many
from alcove.client.changes import ChangeType, Index, ObjectChange, Subscriber, Trim, index_values
from alcove.client.errors import PlaneTooLarge
from alcove.client.keys import ObjectKey, PlaneId
from alcove.client.mirror_entries import IndexedValues, MirrorEntries, MirrorEntry, Name
from alcove.client.plane_objects import Check
from alcove.client.plane_share import PlaneShare

log = logging.getLogger(__name__)

Accepts = Callable[[TenantId, Name], bool]

UNSORTED_MAX = 64
"""The objects of a namespace are found by looking at all of a tenant's, up to this number of them."""

SHARED_LENGTH_MAX = 256
"""Characters of the values of an object that it shares with others."""

_encode = msgspec.json.Encoder().encode
"""Not orjson's encoder: its results keep their whole output buffer alive, at least 4 KB."""


@lru_cache(maxsize=4096)
def _one(indexed: IndexedValues) -> IndexedValues:
    return indexed


def _shared(indexed: IndexedValues) -> IndexedValues:
    """One tuple for the many objects that have the same values. Long values, such as uids of owners that a tenant made up, are
    held by their objects alone: these would stay here when the objects are gone."""
    is_short = sum(len(value) for values in indexed for value in values) <= SHARED_LENGTH_MAX
    return _one(indexed) if is_short else indexed


@lru_cache(maxsize=4096)
def _name(namespace: str, name: str) -> Name:
    """One tuple for the objects of many tenants that have the same name."""
    return (intern(namespace), name)


class UntrustedPlane(Struct, frozen=True):
    """What a mirror needs for a plane whose API server may send anything."""

    share: PlaneShare
    check: Check


class PlaneMirror:
    """Written by the plane's informer."""

    def __init__(
        self,
        plane: PlaneId,
        trim: Trim,
        indexes: Sequence[Index],
        notify: Subscriber,
        accepts: Accepts = lambda _tenant, _name: True,
        untrusted: UntrustedPlane | None = None,
    ) -> None:
        """Objects that `accepts` rejects are not stored, nor are malformed ones of an untrusted plane."""
        self.plane = plane
        self._accepts = accepts
        self._check = untrusted.check if untrusted is not None else None
        self._share = untrusted.share.mirror() if untrusted is not None else None
        self._has_logged = False
        self.revision = Revision(0)
        """All changes up to this revision are stored."""
        self.synced = asyncio.Event()
        """Set when all objects were listed once."""
        self._bodies = SharedBodies()
        self._trim = trim
        self._notify = notify
        self._indexes: list[Index] = []
        self._tenants: dict[TenantId, MirrorEntries] = {}
        self._namespaces: dict[TenantId, dict[str, dict[Name, None]]] = {}
        """Names by namespace, of the tenants with more than UNSORTED_MAX objects."""
        self._names_by_index: list[dict[tuple[TenantId, str], Name | dict[Name, None]]] = []
        """See `one_or_many`."""
        self._tenants_by_index: dict[int, dict[str, dict[TenantId, None]]] = {}
        """The tenants that have objects with a value, for the indexes that are searched over all tenants."""
        self._listed: set[tuple[TenantId, Name]] | None = None
        self._waiting: list[tuple[Revision, asyncio.Future[None]]] = []
        self._arriving: dict[TenantId, dict[Name, Revision]] = {}
        """Tenants that move to this plane, with the objects that were deleted since this began."""
        for index in indexes:
            self.add_index(index)

    # For the informer

    def begin_list(self) -> None:
        self._listed = set()
        self._has_logged = False
        if self._share is not None and self._share.begin_list():
            self._clear()

    def vanished(self) -> set[TenantId]:
        """During a list: the tenants of which no object was listed, but some were there before."""
        listed = {tenant for tenant, _ in self._listed or ()}
        return {tenant for tenant in self._tenants if tenant not in listed}

    def end_list(self, revision: Revision, moved: Collection[TenantId] = ()) -> None:
        """Finish a list: objects that were not listed are removed as deleted. Those of tenants that have `moved` to
        another plane stay until that plane has joined."""
        listed = self._listed or set()
        deleted = [
            (tenant, entry.name)
            for tenant, entries in self._tenants.items()
            if tenant not in moved
            for entry in mirror_entries.each(entries)
            if (tenant, entry.name) not in listed
        ]
        for tenant, name in deleted:
            self._drop(tenant, name, None)
        self._listed = None
        self.advance(revision)
        self.synced.set()

    def put(self, obj: Object, revision: Revision) -> None:
        """Raises PlaneTooLarge."""
        self._unless_malformed(self._put, obj, revision)
        if self._listed is None:
            self.advance(revision)

    def _put(self, obj: Object, revision: Revision) -> None:
        meta = obj["metadata"]
        tenant = self._tenant_of(meta)
        name = _name(meta.get("namespace") or "", meta["name"])
        if self._accepts(tenant, name):
            self._store(tenant, name, obj, revision)

    def _store(self, tenant: TenantId, name: Name, obj: Object, revision: Revision) -> None:
        is_stale = self._is_stale(tenant, name)
        old = mirror_entries.find(self._tenants.get(tenant, ()), name)
        if old is not None and old.revision > revision and self._listed is None:
            return  # It was listed when its tenant arrived, ahead of this watch.
        if old is None or old.revision != revision:
            obj = self._trim(obj)
            indexed = _shared(tuple(index_values(index, obj) for index in self._indexes))
            body = self._packed(_encode(obj), tenant, name, old, is_stale=is_stale)
            entries = self._tenants[tenant] = mirror_entries.with_entry(
                self._tenants.get(tenant, ()), MirrorEntry(name, revision, body, indexed)
            )
            if old is None:
                self._sort(tenant, name, entries)
            self._reindex(tenant, name, old.indexed if old else (), indexed)
            key = ObjectKey(self.plane, tenant, *name)
            kind = ChangeType.UPDATED if old else ChangeType.ADDED
            self._notify(ObjectChange(kind, key, obj, old.body(tenant) if old else b""))
        elif self._share is not None and is_stale:
            self._share.replace(old.size, old.size, is_old_stale=True)
        if self._listed is not None:
            self._listed.add((tenant, name))

    def _packed(
        self, encoded: bytes, tenant: TenantId, name: Name, old: MirrorEntry | None, *, is_stale: bool
    ) -> PackedBody | bytes:
        """The body as it is stored. Raises PlaneTooLarge."""
        if self._share is None:
            return self._bodies.pack(encoded, tenant, name[1])
        self._share.replace(len(encoded), old.size if old is not None else 0, is_old_stale=is_stale)
        return encoded

    def _is_stale(self, tenant: TenantId, name: Name) -> bool:
        """Whether the current list has not confirmed the object yet."""
        return self._listed is not None and (tenant, name) not in self._listed

    def _unless_malformed(
        self, apply: Callable[[Object, Revision], None], obj: Object, revision: Revision
    ) -> None:
        if self._check is None:
            apply(obj, revision)
            return
        try:
            self._check(obj)
            apply(obj, revision)
        except PlaneTooLarge:
            raise
        except Exception as error:  # Also what a check does not know: fields that a trim or an index needs.
            if not self._has_logged:  # Once for each list: a plane must not fill the log.
                self._has_logged = True
                fields = {"plane": self.plane, "error": f"{type(error).__name__}: {str(error)[:200]}"}
                log.warning("malformed object; ignoring it", extra=fields)

    def remove(self, obj: Object, revision: Revision) -> None:
        self._unless_malformed(self._remove, obj, revision)
        self.advance(revision)

    def _remove(self, obj: Object, revision: Revision) -> None:
        meta = obj["metadata"]
        tenant, name = self._tenant_of(meta), (meta.get("namespace") or "", meta["name"])
        if self._check is None and has_moved(obj):
            return  # It stays until the plane that it has moved to has joined.
        if tenant in self._arriving:
            self._arriving[tenant][name] = revision
        entry = mirror_entries.find(self._tenants.get(tenant, ()), name)
        if entry is None or entry.revision <= revision:
            self._drop(tenant, name, obj)

    def _tenant_of(self, metadata: Object) -> TenantId:
        """A stock API server has no such field: whatever is on a dedicated plane is of the tenant with its name."""
        if self._check is not None:
            metadata.setdefault("tenant", self.plane)
        return TenantId(intern(metadata["tenant"]))

    def advance(self, revision: Revision) -> None:
        self.revision = max(self.revision, revision)
        if self._waiting:
            self._wake()

    # Tenants that move

    def begin_arrival(self, tenant: TenantId) -> None:
        self._arriving.setdefault(tenant, {})

    def arrive(
        self, tenant: TenantId, listed: Iterable[tuple[Object, Revision]], at: Revision | None
    ) -> None:
        """Store the objects of an arriving tenant as they were listed, and remove others, unless the watch is ahead."""
        names: set[Name] = set()
        deleted = self._arriving[tenant]
        for obj, revision in listed:
            meta = obj["metadata"]
            name = _name(meta.get("namespace") or "", meta["name"])
            names.add(name)
            # Not what the tenant only sees: its view of ring0's nodes.
            if meta.get("tenant") == tenant and deleted.get(name, Revision(0)) < revision:
                self._store(tenant, name, obj, revision)
        for entry in list(mirror_entries.each(self._tenants.get(tenant, ()))):
            if entry.name not in names and (at is None or entry.revision <= at):
                self._drop(tenant, entry.name, None)

    def end_arrival(self, tenant: TenantId) -> None:
        self._arriving.pop(tenant, None)

    def forget_tenant(self, tenant: TenantId) -> None:
        """Remove the tenant's objects, because another plane serves it."""
        for entry in list(mirror_entries.each(self._tenants.get(tenant, ()))):
            self._drop(tenant, entry.name, None)

    def forget(self) -> None:
        """Remove all objects, because the plane left."""
        self._clear()
        for _, waiting in self._waiting:
            waiting.cancel()

    def _clear(self) -> None:
        for tenant, entries in list(self._tenants.items()):
            for entry in list(mirror_entries.each(entries)):
                self._drop(tenant, entry.name, None)

    def _drop(self, tenant: TenantId, name: Name, last: Object | None) -> None:
        entries = self._tenants.get(tenant, ())
        entry = mirror_entries.find(entries, name)
        if entry is None:
            return
        self._tenants[tenant] = mirror_entries.without_entry(entries, name)
        self._unsort(tenant, name)
        if not self._tenants[tenant]:
            del self._tenants[tenant]
        if self._share is not None:
            self._share.replace(0, entry.size, is_old_stale=self._is_stale(tenant, name))
        self._reindex(tenant, name, entry.indexed, ())
        body = entry.body(tenant)
        obj = self._trim(last) if last is not None else orjson.loads(body)
        self._notify(ObjectChange(ChangeType.DELETED, ObjectKey(self.plane, tenant, *name), obj, body))

    # Indexes

    def _sort(self, tenant: TenantId, name: Name, entries: MirrorEntries) -> None:
        """Adds a name to those of its namespace."""
        namespaces = self._namespaces.get(tenant)
        if namespaces is not None:
            namespaces.setdefault(name[0], {})[name] = None
        elif len(entries) > UNSORTED_MAX:
            namespaces = self._namespaces[tenant] = {}
            for each in mirror_entries.each(entries):
                namespaces.setdefault(each.name[0], {})[each.name] = None

    def _unsort(self, tenant: TenantId, name: Name) -> None:
        namespaces = self._namespaces.get(tenant)
        if namespaces is None:
            return
        del namespaces[name[0]][name]
        if not namespaces[name[0]]:
            del namespaces[name[0]]
            if not namespaces:
                del self._namespaces[tenant]

    def add_index(self, index: Index) -> None:
        self._indexes.append(index)
        self._names_by_index.append({})
        position = len(self._names_by_index) - 1
        for tenant, entries in self._tenants.items():
            for entry in mirror_entries.each(entries):
                values = index_values(index, orjson.loads(entry.body(tenant)))
                entry.indexed = _shared((*entry.indexed, values))
                self._index(position, tenant, entry.name, values)

    def _reindex(self, tenant: TenantId, name: Name, old: IndexedValues, new: IndexedValues) -> None:
        if old == new:
            return
        for position, values in enumerate(old):
            names_by_value = self._names_by_index[position]
            for value in values:
                names = one_or_many.removed(names_by_value[tenant, value], name)
                if names is not None:
                    names_by_value[tenant, value] = names
                else:
                    del names_by_value[tenant, value]
                    self._forget_tenant(position, tenant, value)
        for position, values in enumerate(new):
            self._index(position, tenant, name, values)

    def _index(self, position: int, tenant: TenantId, name: Name, values: Iterable[str]) -> None:
        names_by_value = self._names_by_index[position]
        tenants_by_value = self._tenants_by_index.get(position)
        for value in values:
            at = (tenant, value)
            names_by_value[at] = one_or_many.added(names_by_value.get(at), name)
            if tenants_by_value is not None:
                tenants_by_value.setdefault(value, {})[tenant] = None

    def _forget_tenant(self, position: int, tenant: TenantId, value: str) -> None:
        tenants_by_value = self._tenants_by_index.get(position)
        if tenants_by_value is not None:
            tenants = tenants_by_value[value]
            del tenants[tenant]
            if not tenants:
                del tenants_by_value[value]

    def index_tenants(self, position: int) -> None:
        """Makes `tenants_with` possible for an index."""
        if position not in self._tenants_by_index:
            tenants_by_value = self._tenants_by_index[position] = {}
            for tenant, value in self._names_by_index[position]:
                tenants_by_value.setdefault(value, {})[tenant] = None

    # For readers

    def get(self, tenant: TenantId, name: Name) -> bytes | None:
        entry = mirror_entries.find(self._tenants.get(tenant, ()), name)
        return entry.body(tenant) if entry is not None else None

    def names(self, tenant: TenantId, namespace: str | None) -> list[Name]:
        namespaces = self._namespaces.get(tenant)
        if namespace is not None and namespaces is not None:
            return list(namespaces.get(namespace, ()))
        names = [entry.name for entry in mirror_entries.each(self._tenants.get(tenant, ()))]
        return names if namespace is None else [name for name in names if name[0] == namespace]

    def tenants(self) -> list[TenantId]:
        return list(self._tenants)

    def found(self, position: int, tenant: TenantId, value: str) -> list[Name]:
        return list(one_or_many.each(self._names_by_index[position].get((tenant, value))))

    def tenants_with(self, position: int, value: str) -> list[TenantId]:
        return list(self._tenants_by_index[position].get(value, ()))

    def count(self) -> int:
        return sum(len(entries) for entries in self._tenants.values())

    async def reached(self, revision: Revision) -> None:
        if self.revision < revision:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append((revision, waiting))
            await waiting

    def _wake(self) -> None:
        remaining = []
        for revision, waiting in self._waiting:
            if revision > self.revision:
                remaining.append((revision, waiting))
            elif not waiting.done():
                waiting.set_result(None)
        self._waiting = [each for each in remaining if not each[1].done()]
