"""Objects of one tenant as they were at one time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from alcove.api.ids import GroupResource, TenantId
from alcove.api.objects import Object
from alcove.apiserver.cache.entries import CacheEntry

Namespaces = Mapping[str, Mapping[str, CacheEntry]]
"""Entries by namespace and name."""


class CacheSnapshot:
    """Does not change, so it may be read in any thread. Made by `Cache.snapshot`."""

    def __init__(self, tenant: TenantId, resources: Mapping[GroupResource, Namespaces]) -> None:
        self._tenant = tenant
        self._resources = resources

    def get(self, tenant: TenantId, resource: GroupResource, namespace: str, name: str) -> Object | None:
        entry = self._of(tenant, resource).get(namespace, {}).get(name)
        return entry.object if entry is not None else None

    def list(
        self, tenant: TenantId, resource: GroupResource, namespace: str | None = None
    ) -> Iterable[Object]:
        namespaces = self._of(tenant, resource)
        for each in sorted(namespaces) if namespace is None else (namespace,):
            entries = namespaces.get(each, {})
            for name in sorted(entries):
                yield entries[name].object

    def entries(self, resource: GroupResource) -> Iterator[CacheEntry]:
        """All of them, in no order."""
        for entries in self._resources[resource].values():
            yield from entries.values()

    def labelled(
        self, resource: GroupResource, namespace: str, matches: Callable[[Mapping[str, str]], bool]
    ) -> Iterator[CacheEntry]:
        """The entries of a namespace whose labels match, by name. Only the labels of the others are decoded."""
        entries = self._resources[resource].get(namespace, {})
        return (entries[name] for name in sorted(entries) if matches(entries[name].labels))

    def size_bytes(self, resource: GroupResource, namespace: str) -> int:
        """About how many bytes the objects of a namespace have."""
        return sum(entry.size for entry in self._resources[resource].get(namespace, {}).values())

    def namespaces(self, tenant: TenantId, resource: GroupResource) -> Iterable[str]:
        """The namespaces that have an object of this resource."""
        return self._of(tenant, resource).keys()

    def is_same(
        self, other: CacheSnapshot, tenant: TenantId, resource: GroupResource, namespace: str
    ) -> bool:
        """Whether a namespace has the same states of the same objects as in another snapshot of the tenant."""
        return self._of(tenant, resource).get(namespace) == other._of(tenant, resource).get(namespace)

    def exceeds(self, objects_max: int, bytes_max: int) -> bool:
        """Whether there are more objects, or more bytes in them. Takes as long as `objects_max` allows."""
        if sum(len(entries) for entries in self._each()) > objects_max:
            return True
        return sum(entry.size for entries in self._each() for entry in entries.values()) > bytes_max

    def _each(self) -> Iterator[Mapping[str, CacheEntry]]:
        return (entries for namespaces in self._resources.values() for entries in namespaces.values())

    def _of(self, tenant: TenantId, resource: GroupResource) -> Namespaces:
        assert tenant == self._tenant
        return self._resources[resource]
