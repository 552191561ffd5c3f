"""Overlays for watches: the events of objects that a tenant is shown but has not stored (`lookup.py`).

A shared CRD of ring0 is visible in every tenant, and hides a tenant's CRD of the same name as long as it
exists. A stored object replaces the built-in one of its name (a role, a flow schema), which is shown again when the stored one is
deleted. Aggregated roles change with the roles that they aggregate.

An overlay follows the stored objects from the revision at which its watch begins. Its result for an event
therefore does not depend on the cache's state when the event is processed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from alcove.api.encode import encode
from alcove.api.ids import SYSTEM, GroupResource, Key, Revision, TenantId
from alcove.api.resources import API_SERVICES
from alcove.apiserver import builtin
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.cache.entries import CacheEntry, CacheEvent, CacheEventType
from alcove.apiserver.rbac import aggregate
from alcove.apiserver.resources import lookup
from alcove.apiserver.watch import Watcher


class Overlay(Protocol):
    def shown(self, event: CacheEvent) -> Iterator[CacheEvent]:
        """The events of shown objects that follow from the event of a stored one. Call it once per event, in
        order."""


def for_watch(
    cache: Cache, tenant: TenantId | None, resource: GroupResource, ahead: Sequence[CacheEvent]
) -> Overlay | None:
    """The overlay for a watch; None if the tenant is shown exactly what is stored.

    `ahead` are the events that are in the cache already, but that the overlay is still to be called with.
    """
    if tenant is None or not lookup.is_overlaid(tenant, resource):
        return None
    if resource == API_SERVICES:
        return None  # Those of built-in kinds never change, and no stored one has the same name.
    tenant_objects = _stored_before(cache, tenant, resource, ahead)
    if resource in builtin.RESOURCES:
        return BuiltInObjects(cache, tenant, resource, tenant_objects)
    return SharedObjects(tenant_objects, _stored_before(cache, SYSTEM, resource, ahead))


def _stored_before(
    cache: Cache, tenant: TenantId, resource: GroupResource, ahead: Iterable[CacheEvent]
) -> dict[str, CacheEntry]:
    stored = {entry.key.name: entry for entry in cache.entries(tenant, resource)}
    for event in reversed([event for event in ahead if event.entry.key.tenant == tenant]):
        if event.previous is None:
            stored.pop(event.entry.key.name, None)
        else:
            stored[event.entry.key.name] = event.previous
    return stored


def _follow(stored: dict[str, CacheEntry], event: CacheEvent) -> None:
    if event.kind is CacheEventType.DELETED:
        stored.pop(event.entry.key.name, None)
    else:
        stored[event.entry.key.name] = event.entry


class SharedObjects:
    """A tenant's CRDs: ring0's shared ones, and the tenant's CRDs of other names."""

    def __init__(self, tenant_objects: dict[str, CacheEntry], ring0: dict[str, CacheEntry]) -> None:
        self._tenant_objects = tenant_objects
        self._ring0 = ring0

    def shown(self, event: CacheEvent) -> Iterator[CacheEvent]:
        name = event.entry.key.name
        before = self._at(name)
        _follow(self._ring0 if event.entry.key.tenant == SYSTEM else self._tenant_objects, event)
        yield from _shown_events(event, before, self._at(name))

    def _at(self, name: str) -> CacheEntry | None:
        shared = self._ring0.get(name)
        if shared is not None and lookup.is_shared(shared):
            return shared
        return self._tenant_objects.get(name)


class BuiltInObjects:
    """A tenant's objects of a resource that has built-in ones: stored ones, and built-in ones of other names."""

    def __init__(
        self, cache: Cache, tenant: TenantId, resource: GroupResource, stored: dict[str, CacheEntry]
    ) -> None:
        self._tenant = tenant
        self._resource = resource
        self._stored = stored
        self._names = builtin.built_in(tenant, resource)
        self._aggregated = [name for name, bare in self._names.items() if aggregate.is_aggregated(bare)]
        self._created = builtin.created(tenant, cache)

    def shown(self, event: CacheEvent) -> Iterator[CacheEvent]:
        names = self._touched(event)
        before = [self._at(name) for name in names]
        _follow(self._stored, event)
        for name, was in zip(names, before, strict=True):
            yield from _shown_events(event, was, self._at(name))

    def _touched(self, event: CacheEvent) -> list[str]:
        """Names whose shown object may change with the event."""
        name, previous = event.entry.key.name, event.previous
        # Roles are aggregated by their labels.
        if not (event.entry.labels or (previous is not None and previous.labels) or name in self._names):
            return [name]
        return [name, *(each for each in self._aggregated if each != name)]

    def _at(self, name: str) -> CacheEntry | None:
        stored = self._stored.get(name)
        if stored is not None or name not in self._names:
            return stored
        key = Key(self._resource, self._tenant, "", name)
        aggregated_from = self._stored.values() if name in self._aggregated else ()
        return builtin.build(key, self._created, [entry.object for entry in aggregated_from])


def _shown_events(
    event: CacheEvent, before: CacheEntry | None, after: CacheEntry | None
) -> Iterator[CacheEvent]:
    """The events for a watcher that was shown `before` and is shown `after` from now on."""
    if before is event.previous and after is (None if event.kind is CacheEventType.DELETED else event.entry):
        yield event  # Unchanged, so that watchers share its encoded bytes.
        return
    if after is not None and builtin.is_built_in(after):
        if before is not None and before.body == after.body:
            return
        after = _at_revision(after, event.revision)
    if before is after:
        return
    if before is not None and after is not None and _uid(before) == _uid(after):
        yield CacheEvent(CacheEventType.MODIFIED, after, before)
        return
    if before is not None:
        yield CacheEvent(CacheEventType.DELETED, _at_revision(before, event.revision), before)
    if after is not None:
        yield CacheEvent(CacheEventType.ADDED, after, None)


def _at_revision(entry: CacheEntry, revision: Revision) -> CacheEntry:
    return CacheEntry(entry.key, revision, encode(entry.decode()))


def _uid(entry: CacheEntry) -> str:
    uid: str = entry.decode()["metadata"].get("uid", "")
    return uid


class OverlaidWatcher(Watcher):
    """A watch of shown objects; of one object only if `name` is not None."""

    def __init__(self, *arguments: Any, overlay: Overlay, name: str | None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._overlay = overlay
        self._name = name

    def _offer(self, event: CacheEvent) -> None:
        if event.revision <= self._after:
            return
        for shown in self._overlay.shown(event):
            event_type = self._event_type(shown)
            if event_type is not None and self._name in (None, shown.entry.key.name):
                self._append_event(event_type, shown)
