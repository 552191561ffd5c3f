"""`apiserver.reader.CacheReader` over a dict, for tests of readers. Change it with `put` and `remove`."""

from collections.abc import Iterable, Sequence

from alcove.api import objects
from alcove.api.encode import encode
from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.api.objects import Object
from alcove.apiserver.cache.entries import INDEXED_FIELDS, CacheEntry
from alcove.apiserver.cache.snapshot import CacheSnapshot

_Space = tuple[TenantId, GroupResource]


class MemoryReader:
    def __init__(self) -> None:
        self._spaces: dict[_Space, dict[tuple[str, str], Object]] = {}
        self._generations: dict[_Space, int] = {}
        self._entries: dict[Key, tuple[Object, CacheEntry]] = {}
        self._changes = 0

    def put(self, tenant: TenantId, resource: GroupResource, obj: Object) -> Object:
        space = self._spaces.setdefault((tenant, resource), {})
        space[objects.namespace(obj), objects.name(obj)] = obj
        self._changed(tenant, resource)
        return obj

    def remove(self, tenant: TenantId, resource: GroupResource, namespace: str, name: str) -> None:
        del self._spaces[tenant, resource][namespace, name]
        self._changed(tenant, resource)

    def _changed(self, tenant: TenantId, resource: GroupResource) -> None:
        self._changes += 1
        self._generations[tenant, resource] = self._changes

    def get(self, tenant: TenantId, resource: GroupResource, namespace: str, name: str) -> Object | None:
        return self._spaces.get((tenant, resource), {}).get((namespace, name))

    def list(
        self, tenant: TenantId, resource: GroupResource, namespace: str | None = None
    ) -> Iterable[Object]:
        space = self._spaces.get((tenant, resource), {})
        return [obj for (where, _), obj in sorted(space.items()) if namespace is None or where == namespace]

    def snapshot(self, tenant: TenantId, resources: Sequence[GroupResource]) -> CacheSnapshot:
        found: dict[GroupResource, dict[str, dict[str, CacheEntry]]] = {each: {} for each in resources}
        for resource, namespaces in found.items():
            for (namespace, name), obj in self._spaces.get((tenant, resource), {}).items():
                entry = self._entry(Key(resource, tenant, namespace, name), obj)
                namespaces.setdefault(namespace, {})[name] = entry
        return CacheSnapshot(tenant, found)

    def _entry(self, key: Key, obj: Object) -> CacheEntry:
        """One entry for each state of an object, as in the cache."""
        known, entry = self._entries.get(key, (None, None))
        if entry is None or known is not obj:
            entry = CacheEntry(key, Revision(1), encode({"apiVersion": "v1", "kind": "Thing", **obj}))
            self._entries[key] = (obj, entry)
        return entry

    def indexed(self, tenant: TenantId, resource: GroupResource, value: str) -> Iterable[Object]:
        [field, *_] = INDEXED_FIELDS.get(resource) or ("",)
        path = field.split(".")
        return [obj for obj in self.list(tenant, resource) if field and value == objects.get(obj, *path)]

    def indexed_generation(self, tenant: TenantId, resource: GroupResource, value: str) -> int:
        # Changes more often than necessary: the tenant's other objects count too.
        return self.generation(tenant, resource) if self.indexed(tenant, resource, value) else 0

    def generation(self, tenant: TenantId, resource: GroupResource) -> int:
        return self._generations.get((tenant, resource), 0)

    def generations(self, tenant: TenantId, resources: Sequence[GroupResource]) -> tuple[int, ...]:
        return tuple(self.generation(tenant, resource) for resource in resources)

    def tenants(self, resource: GroupResource) -> Iterable[TenantId]:
        return [tenant for (tenant, own), space in self._spaces.items() if own == resource and space]
