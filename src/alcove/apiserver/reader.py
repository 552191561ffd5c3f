"""How parts of the API server read objects: from the watch cache, in memory, without waiting.

What it returns is shared: never change it. `copy.deepcopy` first, or ask for the entry's own
`decode()`.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from alcove.api.ids import GroupResource, TenantId
from alcove.api.kind import Kind
from alcove.api.objects import Object


class CacheReader(Protocol):
    def get(self, tenant: TenantId, resource: GroupResource, namespace: str, name: str) -> Object | None: ...

    def list(
        self, tenant: TenantId, resource: GroupResource, namespace: str | None = None
    ) -> Iterable[Object]:
        """Objects of one tenant; `namespace` None: of all its namespaces."""
        ...

    def indexed(self, tenant: TenantId, resource: GroupResource, value: str) -> Iterable[Object]:
        """Objects of one tenant whose indexed field (`cache/entries.py`: a pod's node) has this value, in
        no order. Costs those, not the tenant's others."""
        ...

    def indexed_generation(self, tenant: TenantId, resource: GroupResource, value: str) -> int:
        """A number that changes with every change of what `indexed` returns; 0 while that is nothing."""
        ...

    def generation(self, tenant: TenantId, resource: GroupResource) -> int:
        """A number that changes with every change of the tenant's objects of this resource: what is
        derived from them (RBAC rules, webhooks, CRDs) is cached under it."""
        ...

    def tenants(self, resource: GroupResource) -> Iterable[TenantId]:
        """Those that have any object of this resource."""
        ...


class ServedKinds(Protocol):
    """The kinds a tenant is served: the registry's and its CRDs'."""

    def find(self, tenant: TenantId, group: str, version: str, resource: str) -> Kind | None: ...

    def find_kind(self, tenant: TenantId, group: str, version: str, kind: str) -> Kind | None: ...

    def find_anywhere(self, group: str, version: str, resource: str) -> Kind | None:
        """As any tenant has it: for lists over all of them, which show nothing but metadata."""
        ...

    def all(self, tenant: TenantId) -> Sequence[Kind]: ...

    def stored(self, tenant: TenantId, resource: GroupResource) -> Kind | None:
        """The kind whose objects the store keeps under `resource`, served or not."""
        ...
