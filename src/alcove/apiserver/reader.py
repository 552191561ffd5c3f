"""The interfaces by which the API server's components read objects and kinds: from memory, without waiting.

Returned objects are shared: do not change them. Use `copy.deepcopy`, or the entry's `decode()`, for a copy.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from alcove.api.ids import GroupResource, TenantId
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.apiserver.cache.snapshot import CacheSnapshot


class ObjectReader(Protocol):
    def get(self, tenant: TenantId, resource: GroupResource, namespace: str, name: str) -> Object | None: ...

    def list(
        self, tenant: TenantId, resource: GroupResource, namespace: str | None = None
    ) -> Iterable[Object]:
        """Objects of one tenant, of all its namespaces if `namespace` is None."""
        ...


class CacheReader(ObjectReader, Protocol):
    def snapshot(self, tenant: TenantId, resources: Sequence[GroupResource]) -> CacheSnapshot:
        """The tenant's objects of these resources as they are now, to be read in any thread."""
        ...

    def indexed(self, tenant: TenantId, resource: GroupResource, value: str) -> Iterable[Object]:
        """Objects of one tenant whose first indexed field (`cache/entries.py`: a pod's node) has this value, in
        no order. The cost depends on their number only."""
        ...

    def indexed_generation(self, tenant: TenantId, resource: GroupResource, value: str) -> int:
        """A number that changes with every change of what `indexed` returns; 0 while it returns nothing."""
        ...

    def generation(self, tenant: TenantId, resource: GroupResource) -> int:
        """A number that changes with every change of the tenant's objects of this resource: a cache key for
        what is derived from them (RBAC rules, webhooks, CRDs)."""
        ...

    def generations(self, tenant: TenantId, resources: Sequence[GroupResource]) -> tuple[int, ...]:
        """The `generation` of each of several resources."""
        ...

    def tenants(self, resource: GroupResource) -> Iterable[TenantId]:
        """The tenants that have an object of this resource."""
        ...


class ServedKinds(Protocol):
    """The kinds a tenant is served: the registry's and its CRDs'."""

    def find(self, tenant: TenantId, group: str, version: str, resource: str) -> Kind | None: ...

    def find_kind(self, tenant: TenantId, group: str, version: str, kind: str) -> Kind | None: ...

    def find_anywhere(self, group: str, version: str, resource: str) -> Kind | None:
        """The kind as any tenant defines it: for lists over all tenants, which show only metadata."""
        ...

    def all(self, tenant: TenantId) -> Sequence[Kind]: ...

    def preparation(self, tenant: TenantId) -> Callable[[], None] | None:
        """What to call in a thread before the tenant's kinds are asked for; None if nothing takes long."""
        ...

    def stored(self, tenant: TenantId, resource: GroupResource) -> Kind | None:
        """The kind whose objects the store keeps under `resource`, served or not."""
        ...
