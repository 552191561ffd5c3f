"""The objects of one resource: by tenant, namespace and name, in order, with recent history."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator

from alcove.api.ids import Revision, TenantId
from alcove.apiserver.cache.entries import CacheEntry, CacheEvent, CacheEventType
from alcove.apiserver.cache.history import Histories, TenantHistory

HISTORY_EVENTS_MAX = 1024
"""Events kept per tenant and resource for watches that resume; one that resumes before them gets `Expired`."""


class NamespaceBucket:
    """The objects of one namespace."""

    __slots__ = ("entries", "names")

    def __init__(self) -> None:
        self.entries: dict[str, CacheEntry] = {}
        self.names: list[str] | None = None
        """Sorted names; created by the first list, then updated incrementally."""

    def put(self, entry: CacheEntry) -> CacheEntry | None:
        name = entry.key.name
        previous = self.entries.get(name)
        self.entries[name] = entry
        if previous is None and self.names is not None:
            insort(self.names, name)
        return previous

    def remove(self, name: str) -> CacheEntry | None:
        previous = self.entries.pop(name, None)
        if previous is not None and self.names is not None:
            del self.names[bisect_left(self.names, name)]
        return previous

    def ordered(self, after: str = "") -> Iterator[CacheEntry]:
        if self.names is None:
            self.names = sorted(self.entries)
        names = self.names[bisect_right(self.names, after) :] if after else self.names
        return map(self.entries.__getitem__, names)


class IndexedObjects:
    """The objects of one tenant that share a value of the indexed field."""

    __slots__ = ("changed", "entries")

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], CacheEntry] = {}
        """By (namespace, name)."""
        self.changed = Revision(0)
        """Revision of the newest change, including removals."""


class TenantCollection:
    """One tenant's objects of one resource."""

    __slots__ = ("_indexed", "_kept", "buckets", "changed", "floor", "history")

    def __init__(self, floor: Revision, kept: TenantHistory) -> None:
        self._kept = kept
        self.buckets: dict[str, NamespaceBucket] = {}
        self.changed = floor
        """Revision of the newest change."""
        self.history: deque[CacheEvent] = deque()
        self.floor = floor
        """History is complete after this revision."""
        self._indexed: dict[str, IndexedObjects] = {}
        """By the value of the indexed field; a group without objects is removed."""

    def apply(self, event_kind: CacheEventType, entry: CacheEntry) -> CacheEvent:
        bucket = self.buckets.get(entry.key.namespace)
        if bucket is None:
            bucket = self.buckets[entry.key.namespace] = NamespaceBucket()
        if event_kind is CacheEventType.DELETED:
            previous = bucket.remove(entry.key.name)
            if not bucket.entries:
                del self.buckets[entry.key.namespace]
        else:
            previous = bucket.put(entry)
        if entry.indexed or (previous is not None and previous.indexed):
            self._index(event_kind, entry, previous)
        self.changed = entry.revision
        event = CacheEvent(event_kind, entry, previous)
        self.history.append(event)
        if len(self.history) > HISTORY_EVENTS_MAX:
            self.forget_oldest()
        self._kept.added(self, event)
        return event

    def _index(self, event_kind: CacheEventType, entry: CacheEntry, previous: CacheEntry | None) -> None:
        name_key = (entry.key.namespace, entry.key.name)
        stays = event_kind is not CacheEventType.DELETED
        if previous is not None and previous.indexed and not (stays and previous.indexed == entry.indexed):
            group = self._indexed[previous.indexed]
            group.changed = entry.revision
            del group.entries[name_key]
            if not group.entries:
                del self._indexed[previous.indexed]
        if stays and entry.indexed:
            indexed = self._indexed.get(entry.indexed)
            if indexed is None:
                indexed = self._indexed[entry.indexed] = IndexedObjects()
            indexed.entries[name_key] = entry
            indexed.changed = entry.revision

    def indexed(self, value: str) -> IndexedObjects | None:
        return self._indexed.get(value)

    def forget_oldest(self) -> None:
        event = self.history.popleft()
        self.floor = event.revision
        self._kept.dropped(event)

    def forget(self, upto: Revision) -> None:
        while self.history and self.history[0].revision <= upto:
            self.forget_oldest()

    @property
    def is_empty(self) -> bool:
        return not self.buckets and not self.history

    def ordered(self, namespace: str | None, after: tuple[str, str] = ("", "")) -> Iterator[CacheEntry]:
        """Entries after (namespace, name), in that order."""
        if namespace is not None:
            bucket = self.buckets.get(namespace)
            if bucket is not None:
                yield from bucket.ordered(after[1])
            return
        for name in sorted(self.buckets):
            if name >= after[0]:
                yield from self.buckets[name].ordered(after[1] if name == after[0] else "")

    def count(self, namespace: str | None) -> int:
        if namespace is not None:
            bucket = self.buckets.get(namespace)
            return len(bucket.entries) if bucket else 0
        return sum(len(bucket.entries) for bucket in self.buckets.values())


class CacheCollection:
    """All tenants' objects of one resource."""

    __slots__ = ("_histories", "changed", "floor", "tenants")

    def __init__(self, floor: Revision, histories: Histories) -> None:
        self._histories = histories
        self.tenants: dict[TenantId, TenantCollection] = {}
        self.changed = floor
        self.floor = floor

    def apply(self, kind: CacheEventType, entry: CacheEntry) -> CacheEvent:
        collection = self.tenants.get(entry.key.tenant)
        if collection is None:
            collection = TenantCollection(self.floor, self._histories.of(entry.key.tenant))
            self.tenants[entry.key.tenant] = collection
        self.changed = entry.revision
        return collection.apply(kind, entry)

    def forget(self, upto: Revision) -> None:
        """Drops history up to a revision, and tenants that have neither objects nor history."""
        for tenant, collection in list(self.tenants.items()):
            collection.forget(upto)
            if collection.is_empty:
                # A new tenant of this name begins where this one's history ends.
                self.floor = max(self.floor, collection.floor)
                del self.tenants[tenant]

    def ordered(
        self, tenant: TenantId | None, namespace: str | None, after: tuple[str, str, str] = ("", "", "")
    ) -> Iterator[CacheEntry]:
        """Entries after (tenant, namespace, name), in that order; of all tenants if `tenant` is None."""
        if tenant is not None:
            collection = self.tenants.get(tenant)
            if collection is not None:
                yield from collection.ordered(namespace, after[1:])
            return
        for name in sorted(self.tenants):
            if name >= after[0]:
                yield from self.tenants[name].ordered(namespace, after[1:] if name == after[0] else ("", ""))

    def history(self, tenant: TenantId | None, after: Revision) -> list[CacheEvent] | None:
        """Events after `after`, in order; None if some may have been dropped."""
        collections = [self.tenants[tenant]] if tenant in self.tenants else []
        if tenant is None:
            collections = list(self.tenants.values())
        if after < max((collection.floor for collection in collections), default=self.floor):
            return None
        events = [
            event for collection in collections for event in collection.history if event.revision > after
        ]
        if len(collections) > 1:
            events.sort(key=lambda event: event.revision)
        return events
