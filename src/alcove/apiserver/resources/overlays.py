"""What a tenant is shown beyond what it has stored (`lookup.py`), as events: a watch tells what lists show.

Ring0's shared CRDs come, change and go for every tenant, and hide its own of the same name meanwhile. A built-in
role is replaced by a stored one and is back when that goes; aggregated ones change with the roles they gather.

An overlay follows the stored objects from the revision at which its watch begins, so what it makes of an event
does not depend on when the event is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from alcove.api.encode import encode
from alcove.api.ids import SYSTEM, GroupResource, Key, Revision, TenantId
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.cache.entries import CacheEntry, CacheEvent, CacheEventType
from alcove.apiserver.rbac import aggregate, builtin, defaults
from alcove.apiserver.resources import lookup
from alcove.apiserver.watch import Watcher


class Overlay(Protocol):
    def shown(self, event: CacheEvent) -> Iterator[CacheEvent]:
        """What a change of a stored object means for what is shown. To be asked once for each, in order."""


def of(
    cache: Cache, tenant: TenantId | None, resource: GroupResource, ahead: Sequence[CacheEvent]
) -> Overlay | None:
    """None: the tenant is shown what is stored. `ahead` are the events which the overlay will be asked of, though
    the cache has them already."""
    if tenant is None or not lookup.is_overlaid(tenant, resource):
        return None
    own = _stored_before(cache, tenant, resource, ahead)
    if resource in builtin.RESOURCES:
        return BuiltInRoles(cache, tenant, resource, own)
    return SharedObjects(own, _stored_before(cache, SYSTEM, resource, ahead))


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
    """A tenant's CRDs: ring0's shared ones, and its own where none of those has the name."""

    def __init__(self, own: dict[str, CacheEntry], ring0: dict[str, CacheEntry]) -> None:
        self._own = own
        self._ring0 = ring0

    def shown(self, event: CacheEvent) -> Iterator[CacheEvent]:
        name = event.entry.key.name
        before = self._at(name)
        _follow(self._ring0 if event.entry.key.tenant == SYSTEM else self._own, event)
        yield from _told(event, before, self._at(name))

    def _at(self, name: str) -> CacheEntry | None:
        shared = self._ring0.get(name)
        if shared is not None and lookup.is_shared(shared):
            return shared
        return self._own.get(name)


class BuiltInRoles:
    """A tenant's cluster roles or their bindings: the stored ones, and built-in ones that they do not replace."""

    def __init__(
        self, cache: Cache, tenant: TenantId, resource: GroupResource, stored: dict[str, CacheEntry]
    ) -> None:
        self._tenant = tenant
        self._resource = resource
        self._stored = stored
        self._names = defaults.built_in(tenant, resource)
        self._gathering = [name for name, bare in self._names.items() if aggregate.is_aggregated(bare)]
        self._created = builtin.created(tenant, cache)

    def shown(self, event: CacheEvent) -> Iterator[CacheEvent]:
        names = self._touched(event)
        before = [self._at(name) for name in names]
        _follow(self._stored, event)
        for name, was in zip(names, before, strict=True):
            yield from _told(event, was, self._at(name))

    def _touched(self, event: CacheEvent) -> list[str]:
        """Names under which something else may be shown from now on."""
        name, was = event.entry.key.name, event.previous
        # Roles are gathered by labels.
        if not (event.entry.labels or (was is not None and was.labels) or name in self._names):
            return [name]
        return [name, *(each for each in self._gathering if each != name)]

    def _at(self, name: str) -> CacheEntry | None:
        found = self._stored.get(name)
        if found is not None or name not in self._names:
            return found
        key = Key(self._resource, self._tenant, "", name)
        gathered = self._stored.values() if name in self._gathering else ()
        return builtin.made(key, self._created, [entry.object for entry in gathered])


def _told(event: CacheEvent, before: CacheEntry | None, after: CacheEntry | None) -> Iterator[CacheEvent]:
    """The event as it is seen by who was shown `before` and is shown `after` now."""
    if before is event.previous and after is (None if event.kind is CacheEventType.DELETED else event.entry):
        yield event  # As it is, with the bytes that its watchers share.
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
    """A watch of what is shown; `name`: of one object only."""

    def __init__(self, *arguments: Any, overlay: Overlay, name: str | None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._overlay = overlay
        self._name = name

    def _offer(self, event: CacheEvent) -> None:
        if event.revision <= self._after:
            return
        for shown in self._overlay.shown(event):
            told = self._kind(shown)
            if told is not None and self._name in (None, shown.entry.key.name):
                self._tell(told, shown)
