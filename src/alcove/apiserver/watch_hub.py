"""All watchers of this server: finds those of an event by index, and bounds how many a tenant has.

The cost of an event depends on the watchers whose scope it falls into, not on all of them. It is charged to the
tenant that wrote the object; initial events are charged to the tenant that watches. Watchers write in turns
between these tenants, for at most SLICE_SECONDS in one iteration of the loop, so that neither an event with many
watchers nor many new watches delay other requests.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from msgspec import Struct

from alcove.api.errors import TooManyRequests
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.tenant_shards import TenantShard, shard_of
from alcove.apiserver.buffers import TenantBuffers
from alcove.apiserver.cache.entries import CacheEvent, IndexedValue
from alcove.http.group_counts import GroupCounts

if TYPE_CHECKING:
    from alcove.apiserver.watch import Watcher

WATCHES_PER_TENANT_MAX = 800
"""Watches per tenant, except ring0; one more is answered with 429. A watch needs a connection of its own."""
SLICE_SECONDS = 0.001
"""For which watchers write in one iteration of the loop."""
RETRY_AFTER_SECONDS = 5
CHARGED_SECONDS_MIN = 0.0005
"""Time is charged in portions of at least this."""


class WatchScope(Struct, frozen=True):
    """The key that a watcher is indexed by. None is a wildcard."""

    resource: GroupResource
    tenant: TenantId | None
    namespace: str | None
    name: str | None = None
    indexed: IndexedValue | None = None
    """A value of one of the resource's indexed fields: a pod's node."""
    shard: TenantShard | None = None
    """Of all tenants, those of a shard."""

    @property
    def shape(self) -> ScopeShape:
        position = self.indexed.position if self.indexed is not None else None
        division = (self.shard.count, self.shard.with_system) if self.shard is not None else None
        return (self.tenant is None, self.namespace is None, self.name is not None, position, division)


Division = tuple[int, bool]
"""The number of shards, and whether all of them have ring0's objects."""
ScopeShape = tuple[bool, bool, bool, int | None, Division | None]
"""Which parts of a scope are wildcards, the position of the indexed field, and how tenants are divided."""


class WatchHub:
    def __init__(
        self,
        buffers: TenantBuffers | None = None,
        charge: Callable[[TenantId, float], None] = lambda _tenant, _seconds: None,
        per_tenant_max: int = WATCHES_PER_TENANT_MAX,
        counts: GroupCounts | None = None,
    ) -> None:
        """`charge` is called with the seconds that sending a tenant's events took. `counts`: the watches of each
        tenant."""
        self.buffers = buffers or TenantBuffers()
        self.buffers.add_shedder(self._shed)
        self._charge = charge
        self._per_tenant_max = per_tenant_max
        self._counts = GroupCounts() if counts is None else counts
        self._watchers: dict[WatchScope, set[Watcher]] = {}
        self._shapes: dict[GroupResource, Counter[ScopeShape]] = {}
        self._by_tenant: dict[TenantId, set[Watcher]] = {}
        """By the tenant of the user who watches."""
        self._unflushed: OrderedDict[TenantId, OrderedDict[Watcher, None]] = OrderedDict()
        """Watchers that have events to write, by the tenant that is charged; the next tenant first."""
        self._is_flush_scheduled = False
        self._uncharged: dict[TenantId, float] = {}
        self.count = 0

    def check(self, tenant: TenantId) -> None:
        """Raises TooManyRequests if the tenant may not start another watch."""
        if tenant != SYSTEM and self._counts.total(tenant) >= self._per_tenant_max:
            message = (
                f'tenant "{tenant}" has {self._per_tenant_max} watches open; close some, or try again later'
            )
            raise TooManyRequests.after(RETRY_AFTER_SECONDS, message)

    def add(self, watcher: Watcher) -> None:
        for scope in watcher.scopes:
            self._watchers.setdefault(scope, set()).add(watcher)
            self._shapes.setdefault(scope.resource, Counter())[scope.shape] += 1
        self._by_tenant.setdefault(watcher.tenant, set()).add(watcher)
        self._counts.add(watcher.tenant, 1)
        self.count += 1

    def remove(self, watcher: Watcher) -> None:
        own = self._by_tenant.get(watcher.tenant, set())
        if watcher not in own:
            return
        for scope in watcher.scopes:
            self._remove(watcher, scope)
        own.discard(watcher)
        if not own:
            del self._by_tenant[watcher.tenant]
        self._counts.add(watcher.tenant, -1)
        self.count -= 1

    def _remove(self, watcher: Watcher, scope: WatchScope) -> None:
        group = self._watchers[scope]
        group.discard(watcher)
        if not group:
            del self._watchers[scope]
        shapes = self._shapes[scope.resource]
        shapes[scope.shape] -= 1
        if not shapes[scope.shape]:
            del shapes[scope.shape]

    def _shed(self, tenant: TenantId, count: int) -> None:
        """Ends the watches of a tenant that hold most, until about `count` bytes are free."""
        for watcher in sorted(self._by_tenant.get(tenant, ()), key=_held_bytes, reverse=True):
            if count <= 0 or not watcher.held_bytes:
                return
            count -= watcher.held_bytes
            watcher.expire()

    def expire(self, tenant: TenantId) -> None:
        """Ends all watches of the tenant's objects."""
        scopes = [scope for scope in self._watchers if scope.tenant == tenant]
        for watcher in {each for scope in scopes for each in self._watchers.get(scope, ())}:
            watcher.expire("the tenant has moved to another API server: list again and watch from there")

    def publish(self, events: Sequence[CacheEvent]) -> None:
        began = perf_counter()
        for event in events:
            tenant = event.entry.key.tenant
            offered: dict[Watcher, None] = {}
            for watcher in self._interested(event):
                watcher.offer(event)
                offered[watcher] = None
            if offered:
                self._unflushed.setdefault(tenant, OrderedDict()).update(offered)
                began = self._spend(tenant, began)
        if self._unflushed and not self._is_flush_scheduled:
            self._flush()

    @property
    def is_idle(self) -> bool:
        """Whether all watchers have written what their clients read."""
        return not self._unflushed

    def schedule(self, watcher: Watcher, tenant: TenantId) -> None:
        """Lets the watcher write in an iteration to come; `tenant` is charged for it."""
        self._unflushed.setdefault(tenant, OrderedDict())[watcher] = None
        self._schedule_flush()

    def _schedule_flush(self) -> None:
        if not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Lets some watchers write now, and the others in the loop's next iterations."""
        self._is_flush_scheduled = False
        began = perf_counter()
        until = began + SLICE_SECONDS
        while self._unflushed:
            tenant, watchers = self._unflushed.popitem(last=False)
            watcher, _ = watchers.popitem(last=False)
            if watchers:
                self._unflushed[tenant] = watchers
            if watcher.flush():
                self._unflushed.setdefault(tenant, OrderedDict())[watcher] = None
            began = self._spend(tenant, began)
            if began >= until:
                break
        if self._unflushed:
            self._schedule_flush()

    def _spend(self, tenant: TenantId, began: float) -> float:
        """Counts the time since `began` for a tenant; returns the time now."""
        now = perf_counter()
        seconds = self._uncharged.pop(tenant, 0.0) + now - began
        if seconds < CHARGED_SECONDS_MIN:
            self._uncharged[tenant] = seconds
        else:
            self._charge(tenant, seconds)
        return now

    def _interested(self, event: CacheEvent) -> Iterator[Watcher]:
        key = event.entry.key
        shapes = self._shapes.get(key.resource)
        if not shapes:
            return
        for all_tenants, all_namespaces, by_name, position, division in tuple(shapes):
            shards = (None,) if division is None else _shards_with(key.tenant, *division)
            for indexed in _indexed_values(event, position) if position is not None else (None,):
                for shard in shards:
                    scope = WatchScope(
                        key.resource,
                        None if all_tenants else key.tenant,
                        None if all_namespaces else key.namespace,
                        key.name if by_name else None,
                        indexed,
                        shard,
                    )
                    yield from tuple(self._watchers.get(scope, ()))


def _shards_with(tenant: TenantId, count: int, with_system: bool) -> Sequence[TenantShard]:
    """The shards, of a division of the tenants, that the tenant's objects are in."""
    indexes = range(count) if with_system and tenant == SYSTEM else (shard_of(tenant, count),)
    return [TenantShard(index, count, with_system) for index in indexes]


def _held_bytes(watcher: Watcher) -> int:
    return watcher.held_bytes


def _indexed_values(event: CacheEvent, position: int) -> Iterable[IndexedValue]:
    """Both the new and the old value: a watcher of the old one gets a DELETED event."""
    values = {event.entry.indexed[position]}
    if event.previous is not None:
        values.add(event.previous.indexed[position])
    return [IndexedValue(position, value) for value in values]
