"""How much history is kept: per tenant over all resources, and in total.

An event costs the bytes that only history keeps in memory: those of the state before it, and of the last state
of a deleted object. A tenant that changes much drops its own oldest events. When the total is reached, the
tenants with most history lose it, down to a common level.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from alcove.api.ids import TenantId
from alcove.apiserver.buffers import TenantBuffers
from alcove.apiserver.cache.entries import CacheEvent, CacheEventType

if TYPE_CHECKING:
    from alcove.apiserver.cache.collections import TenantCollection

HISTORY_BYTES_PER_TENANT_MAX = 16 << 20
"""Bytes of history per tenant; a watch that resumes before the oldest event kept gets `Expired`."""
HISTORY_BYTES_TOTAL_MAX = 128 << 20
"""Bytes of history of all tenants; those with most lose it, and their watches that resume get `Expired`."""
EVENT_BYTES = 1024
"""The memory of an event beside its bodies."""
WORKER_SHARE_MIN = 1 / 4
"""Workers of one server divide both bounds, as each keeps the history of all tenants, but not into less than this."""
LEVEL_SHARE = 0.9
"""The part of either bound that remains when history is dropped, so that this happens rarely."""


def event_cost(event: CacheEvent) -> int:
    cost = EVENT_BYTES
    if event.previous is not None:
        cost += event.previous.size
    if event.kind is CacheEventType.DELETED:
        cost += event.entry.size
    return cost


class TenantHistory:
    """The events of one tenant in all its collections."""

    __slots__ = ("_collections", "_histories", "bytes", "count", "tenant")

    def __init__(self, tenant: TenantId, histories: Histories) -> None:
        self.tenant = tenant
        self.bytes = 0
        self.count = 0
        self._histories = histories
        self._collections: list[TenantCollection] = []
        """Those that have events."""

    def added(self, collection: TenantCollection, event: CacheEvent) -> None:
        """Counts an event that is in the collection's history already."""
        cost = event.cost = event_cost(event)
        if len(collection.history) == 1:
            self._collections.append(collection)
        self.bytes += cost
        self.count += 1
        self._histories.changed(self, cost)

    def replaced(self, oldest: CacheEvent, event: CacheEvent) -> None:
        """Counts an event that is in a collection's history in the place of its oldest one: nearly always at the same
        cost."""
        event.cost = event_cost(event)
        growth = event.cost - oldest.cost
        if growth:
            self.bytes += growth
            self._histories.changed(self, growth)

    def dropped(self, collection: TenantCollection, event: CacheEvent) -> None:
        """Counts an event that is not in the collection's history any more."""
        cost = event.cost
        if not collection.history:
            self._collections.remove(collection)
        self.bytes -= cost
        self.count -= 1
        self._histories.changed(self, -cost)
        if not self.count:
            self._histories.forget(self.tenant)

    def shrink(self, bytes_max: int) -> None:
        """Drops the oldest events until at most `bytes_max` remain. Their order is found now: to keep it would take
        more memory than an event."""
        oldest = [(each.history[0].revision, number, each) for number, each in enumerate(self._collections)]
        heapify(oldest)
        while self.bytes > bytes_max and oldest:
            revision, number, collection = oldest[0]
            collection.forget(revision)
            if collection.history:
                heapreplace(oldest, (collection.history[0].revision, number, collection))
            else:
                heappop(oldest)


class Histories:
    """The histories of all tenants."""

    def __init__(
        self,
        buffers: TenantBuffers,
        per_tenant_max: int = HISTORY_BYTES_PER_TENANT_MAX,
        total_max: int = HISTORY_BYTES_TOTAL_MAX,
        workers: int = 1,
    ) -> None:
        """`workers`: the processes of this server, each of which keeps history."""
        self._buffers = buffers
        share = max(1 / workers, WORKER_SHARE_MIN)
        self._per_tenant_max = int(per_tenant_max * share)
        self._total_max = int(total_max * share)
        self._tenants: dict[TenantId, TenantHistory] = {}
        """Those of tenants that have events."""
        self.bytes = 0
        buffers.add_shedder(self.shed)

    def of(self, tenant: TenantId) -> TenantHistory:
        history = self._tenants.get(tenant)
        if history is None:
            history = self._tenants[tenant] = TenantHistory(tenant, self)
        return history

    def changed(self, history: TenantHistory, count: int) -> None:
        self.bytes += count
        if count < 0:
            self._buffers.release(history.tenant, -count)
            return
        self._buffers.hold(history.tenant, count)
        if history.bytes > self._per_tenant_max:
            history.shrink(int(self._per_tenant_max * LEVEL_SHARE))
        if self.bytes > self._total_max:
            self._level()

    def shed(self, tenant: TenantId, count: int) -> None:
        """Drops about `count` bytes of a tenant's oldest history."""
        history = self._tenants.get(tenant)
        if history is not None:
            history.shrink(max(history.bytes - count, 0))

    def forget(self, tenant: TenantId) -> None:
        """Forgets a tenant that has no events."""
        del self._tenants[tenant]

    def _level(self) -> None:
        """Cuts the largest histories to a common level."""
        sizes = sorted((history.bytes for history in self._tenants.values()), reverse=True)
        excess = self.bytes - int(self._total_max * LEVEL_SHARE)
        level, above = 0, 0
        for index, size in enumerate(sizes, start=1):
            above += size
            lower = sizes[index] if index < len(sizes) else 0
            if above - index * lower >= excess:
                level = (above - excess) // index
                break
        for history in list(self._tenants.values()):
            if history.bytes > level:
                history.shrink(level)
