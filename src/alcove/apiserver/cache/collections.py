"""The objects of one resource: by tenant, namespace and name, in order, with recent history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from alcove.api.ids import Revision, TenantId
from alcove.api.tenant_shards import TenantShard
from alcove.apiserver.cache.entries import CacheEntry, CacheEvent, CacheEventType, IndexedValue
from alcove.apiserver.cache.history import Histories
from alcove.apiserver.cache.tenant_objects import TenantObjects

HISTORY_EVENTS_MAX = 1024
"""Events kept per tenant and resource for watches that resume; one that resumes before them gets `Expired`."""


class IndexedObjects:
    """The objects of one tenant that share a value of an indexed field."""

    __slots__ = ("changed", "entries")

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], CacheEntry] = {}
        """By (namespace, name)."""
        self.changed = Revision(0)
        """Revision of the newest change, including removals."""


_NO_HISTORY: list[CacheEvent] = []
"""Shared by all collections without history: most have none."""
_NO_INDEX: dict[IndexedValue, IndexedObjects] = {}


class TenantCollection(TenantObjects):
    """One tenant's objects of one resource, with indexes and history."""

    __slots__ = ("_indexed", "_parent", "changed", "floor", "history")

    def __init__(self, parent: CacheCollection) -> None:
        super().__init__()
        self._parent = parent
        self.changed = parent.floor
        """Revision of the newest change."""
        self.history: list[CacheEvent] = _NO_HISTORY
        """Oldest first. A list: most have few events, and a deque takes as much memory as sixty."""
        self.floor = parent.floor
        """History is complete after this revision."""
        self._indexed: dict[IndexedValue, IndexedObjects] = _NO_INDEX
        """A group without objects is removed."""

    def apply(self, event_kind: CacheEventType, entry: CacheEntry) -> CacheEvent:
        event = CacheEvent(event_kind, entry, self.store(event_kind, entry))
        self._remember(event)
        return event

    def store(self, event_kind: CacheEventType, entry: CacheEntry) -> CacheEntry | None:
        """Applies a change without history; returns the state before it."""
        if event_kind is CacheEventType.DELETED:
            previous = self.remove(entry.key.namespace, entry.key.name)
        else:
            previous = self.put(entry)
        if entry.indexed:
            self._index(event_kind, entry, previous)
        self.changed = entry.revision
        return previous

    def _index(self, event_kind: CacheEventType, entry: CacheEntry, previous: CacheEntry | None) -> None:
        name_key = (entry.key.namespace, entry.key.name)
        stays = event_kind is not CacheEventType.DELETED
        for position, value in enumerate(entry.indexed):
            before = previous.indexed[position] if previous is not None else ""
            if before and not (stays and before == value):
                self._remove_indexed(IndexedValue(position, before), name_key, entry)
            if stays and value:
                indexed_value = IndexedValue(position, value)
                group = self._indexed.get(indexed_value)
                if group is None:
                    group = self._add_group(indexed_value, entry.key.tenant)
                group.entries[name_key] = entry
                group.changed = entry.revision

    def _add_group(self, value: IndexedValue, tenant: TenantId) -> IndexedObjects:
        if self._indexed is _NO_INDEX:
            self._indexed = {}
        group = self._indexed[value] = IndexedObjects()
        self._parent.tenants_by_value.setdefault(value, {})[tenant] = None
        return group

    def _remove_indexed(self, value: IndexedValue, name_key: tuple[str, str], entry: CacheEntry) -> None:
        group = self._indexed[value]
        group.changed = entry.revision
        del group.entries[name_key]
        if not group.entries:
            del self._indexed[value]
            tenants = self._parent.tenants_by_value[value]
            del tenants[entry.key.tenant]
            if not tenants:
                del self._parent.tenants_by_value[value]

    def indexed(self, value: IndexedValue) -> IndexedObjects | None:
        return self._indexed.get(value)

    def indexed_values(self, position: int) -> list[str]:
        """The values of an indexed field that objects have."""
        return [each.value for each in self._indexed if each.position == position]

    # History

    def _remember(self, event: CacheEvent) -> None:
        if self.history is _NO_HISTORY:
            self.history = []
            self._parent.with_history[event.entry.key.tenant] = self
        self.history.append(event)
        history = self._parent.histories.of(event.entry.key.tenant)
        if len(self.history) > HISTORY_EVENTS_MAX:
            history.replaced(self._pop_oldest(), event)
        else:
            history.added(self, event)

    def _pop_oldest(self) -> CacheEvent:
        event = self.history.pop(0)
        self.floor = event.revision
        self._parent.floor_max = max(self._parent.floor_max, self.floor)
        return event

    def _forget_oldest(self) -> None:
        event = self._pop_oldest()
        self._parent.histories.of(event.entry.key.tenant).dropped(self, event)

    def forget(self, upto: Revision) -> None:
        while self.history and self.history[0].revision <= upto:
            self._forget_oldest()

    def release_history(self) -> bool:
        """Frees the memory of a history without events; returns whether there is none."""
        if not self.history:
            self.history = _NO_HISTORY
        return self.history is _NO_HISTORY


class CacheCollection:
    """All tenants' objects of one resource."""

    __slots__ = (
        "changed",
        "floor",
        "floor_max",
        "histories",
        "size",
        "tenants",
        "tenants_by_value",
        "with_history",
    )

    def __init__(self, floor: Revision, histories: Histories) -> None:
        self.histories = histories
        self.tenants: dict[TenantId, TenantCollection] = {}
        self.tenants_by_value: dict[IndexedValue, dict[TenantId, None]] = {}
        """The tenants that have objects with a value of an indexed field."""
        self.with_history: dict[TenantId, TenantCollection] = {}
        """Those of `tenants` that may have history."""
        self.size = 0
        """The number of objects."""
        self.changed = floor
        self.floor = floor
        """History of tenants that are not in `tenants` is complete after this revision."""
        self.floor_max = floor
        """History of all tenants is complete after this revision."""

    def apply(self, kind: CacheEventType, entry: CacheEntry) -> CacheEvent:
        collection = self._of(entry.key.tenant)
        self.changed = entry.revision
        size = collection.size
        event = collection.apply(kind, entry)
        self.size += collection.size - size
        return event

    def load(self, entry: CacheEntry) -> None:
        """Adds an object that existed before the history begins."""
        self._of(entry.key.tenant).store(CacheEventType.ADDED, entry)
        self.changed = max(self.changed, entry.revision)
        self.size += 1

    def _of(self, tenant: TenantId) -> TenantCollection:
        collection = self.tenants.get(tenant)
        if collection is None:
            collection = self.tenants[tenant] = TenantCollection(self)
        return collection

    def forget(self, upto: Revision) -> None:
        """Drops history up to a revision, and tenants that have neither objects nor history. The cost depends on
        what changed since the last call."""
        for tenant, collection in list(self.with_history.items()):
            collection.forget(upto)
            if collection.release_history():
                del self.with_history[tenant]
                if not collection.size:
                    # A new tenant of this name begins where this one's history ends.
                    self.floor = max(self.floor, collection.floor)
                    del self.tenants[tenant]

    def indexed(
        self, tenant: TenantId | None, value: IndexedValue, shard: TenantShard | None = None
    ) -> Iterator[CacheEntry]:
        """Entries with a value of an indexed field, in order of tenant, namespace, name; of all tenants if
        `tenant` is None, or of those of a shard. The cost depends on their number only."""
        tenants = _inside(self.tenants_by_value.get(value, ()), shard) if tenant is None else (tenant,)
        for each in sorted(tenants):
            collection = self.tenants.get(each)
            group = collection.indexed(value) if collection is not None else None
            if group is not None:
                yield from (group.entries[name_key] for name_key in sorted(group.entries))

    def ordered(
        self,
        tenant: TenantId | None,
        namespace: str | None,
        after: tuple[str, str, str] = ("", "", ""),
        shard: TenantShard | None = None,
    ) -> Iterator[CacheEntry]:
        """Entries after (tenant, namespace, name), in that order; of all tenants if `tenant` is None, or of those of
        a shard."""
        if tenant is not None:
            collection = self.tenants.get(tenant)
            if collection is not None:
                yield from collection.ordered(namespace, after[1:])
            return
        for name in sorted(_inside(self.tenants, shard)):
            if name >= after[0]:
                yield from self.tenants[name].ordered(namespace, after[1:] if name == after[0] else ("", ""))

    def history(
        self, tenant: TenantId | None, after: Revision, shard: TenantShard | None = None
    ) -> list[CacheEvent] | None:
        """Events after `after`, in order; None if some may have been dropped."""
        if tenant is None:
            collections = [self.with_history[each] for each in _inside(self.with_history, shard)]
            floor = self.floor_max
        else:
            collection = self.tenants.get(tenant)
            collections = [collection] if collection is not None else []
            floor = collection.floor if collection is not None else self.floor
        if after < floor:
            return None
        events = [
            event for collection in collections for event in collection.history if event.revision > after
        ]
        if len(collections) > 1:
            events.sort(key=lambda event: event.revision)
        return events


def _inside(tenants: Iterable[TenantId], shard: TenantShard | None) -> Iterable[TenantId]:
    return tenants if shard is None else (tenant for tenant in tenants if tenant in shard)
