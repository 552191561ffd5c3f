"""Caches what plugins derive from a tenant's objects (compiled webhooks, limits) until the objects change.

For a tenant without such objects, a call costs two lookups.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from alcove.api.ids import GroupResource, TenantId
from alcove.apiserver.reader import CacheReader

TENANTS_MAX = 4096
"""Number of tenants in the cache; beyond that, the oldest entry is removed."""

T = TypeVar("T")


class DerivedCache(Generic[T]):
    def __init__(self, reader: CacheReader, resource: GroupResource, make: Callable[[TenantId], T]) -> None:
        self._reader = reader
        self._resource = resource
        self._make = make
        self._cached: dict[TenantId, tuple[int, T]] = {}

    def of(self, tenant: TenantId) -> T | None:
        """The tenant's derived value; None if the tenant never had an object of the resource."""
        generation = self._reader.generation(tenant, self._resource)
        if not generation:
            return None
        cached = self._cached.get(tenant)
        if cached is not None and cached[0] == generation:
            return cached[1]
        value = self._make(tenant)
        if cached is None and len(self._cached) >= TENANTS_MAX:
            del self._cached[next(iter(self._cached))]
        self._cached[tenant] = (generation, value)
        return value
