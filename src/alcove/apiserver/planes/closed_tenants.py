"""The tenants that are closed on this server (`store/closures.py`), because they move to another one.

Their requests are answered with 503 and Retry-After, their watches end with 410. When a tenant is opened again, its history
begins anew: revisions that its clients know from before are of another store.
"""

from __future__ import annotations

from collections.abc import Sequence

from alcove.api.errors import Details, ServiceUnavailable
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.resources import LEASES
from alcove.api.tenant_closures import NAMESPACE
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.cache.entries import CacheEvent, CacheEventType
from alcove.apiserver.call import ApiCall
from alcove.apiserver.watch_hub import WatchHub
from alcove.store.closures import closed_tenant

RETRY_AFTER_SECONDS = 1


def moving(tenant: TenantId) -> ServiceUnavailable:
    message = f'tenant "{tenant}" is moving to another API server; try again'
    return ServiceUnavailable(message, Details(retry_after_seconds=RETRY_AFTER_SECONDS))


class ClosedTenants:
    def __init__(self, cache: Cache, hub: WatchHub) -> None:
        self._cache = cache
        self._hub = hub
        self._closed: set[TenantId] = set()

    def load(self) -> None:
        """Call it once the cache is filled."""
        keys = (entry.key for entry in self._cache.entries(SYSTEM, LEASES, NAMESPACE))
        self._closed = {tenant for key in keys if (tenant := closed_tenant(key)) is not None}

    def notice(self, events: Sequence[CacheEvent]) -> None:
        """Called with every change of objects, after the cache has it."""
        for event in events:
            tenant = closed_tenant(event.entry.key)
            if tenant is None:
                continue
            if event.kind is CacheEventType.DELETED:
                self._closed.discard(tenant)
                self._cache.begin_history(tenant, event.revision)
            elif tenant not in self._closed:
                self._closed.add(tenant)
                self._hub.expire(tenant)

    def has(self, tenant: TenantId) -> bool:
        return tenant in self._closed

    def check(self, call: ApiCall) -> None:
        """A step of the pipeline. Raises ServiceUnavailable."""
        if self._closed and call.tenant in self._closed and call.target.is_resource:
            raise moving(call.tenant)
