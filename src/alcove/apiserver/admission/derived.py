"""What plugins derive from a tenant's objects (compiled webhooks, limits), kept as long as those do not change.

For a tenant without such objects, asking costs two lookups.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from alcove.api.ids import GroupResource, TenantId
from alcove.apiserver.reader import CacheReader

TENANTS_MAX = 4096
"""Tenants whose derived values are kept; past that the oldest is made again when it is asked for."""

T = TypeVar("T")


class DerivedCache(Generic[T]):
    def __init__(self, reader: CacheReader, resource: GroupResource, make: Callable[[TenantId], T]) -> None:
        self._reader = reader
        self._resource = resource
        self._make = make
        self._known: dict[TenantId, tuple[int, T]] = {}

    def of(self, tenant: TenantId) -> T | None:
        """None: the tenant never had an object of the resource."""
        generation = self._reader.generation(tenant, self._resource)
        if not generation:
            return None
        known = self._known.get(tenant)
        if known is not None and known[0] == generation:
            return known[1]
        made = self._make(tenant)
        if known is None and len(self._known) >= TENANTS_MAX:
            del self._known[next(iter(self._known))]
        self._known[tenant] = (generation, made)
        return made
