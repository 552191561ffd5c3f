"""Counts of objects per tenant, namespace and resource, and dependents by owner uid.

Updated with each change, so that a lookup does not have to search every mirror.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client import one_or_many
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey, PlaneId, TenantKey
from alcove.client.resources import Resource


class TenantObject(Struct, frozen=True):
    resource: Resource
    namespace: str
    name: str


class ObjectCounts:
    def __init__(self) -> None:
        self._counts: dict[TenantKey, dict[str, Counter[Resource]]] = {}
        """Counts by namespace; cluster-scoped objects are under ""."""
        self._dependents: dict[tuple[PlaneId, TenantId, str], TenantObject | dict[TenantObject, None]] = {}
        """See `one_or_many`."""

    def note(self, resource: Resource, change: ObjectChange) -> None:
        key = change.key
        match change.kind:
            case ChangeType.ADDED:
                self._count(resource, key)
                self._add_dependent(resource, key, _owners(change.obj))
            case ChangeType.UPDATED:
                old, new = _owners(change.old or {}), _owners(change.obj)
                if old != new:
                    self._remove_dependent(resource, key, old)
                    self._add_dependent(resource, key, new)
            case ChangeType.DELETED:
                self._discount(resource, key)
                self._remove_dependent(resource, key, _owners(change.old or change.obj))

    def resources(self, tenant_key: TenantKey, namespace: str | None) -> Iterable[Resource]:
        """The resources of which the namespace (None: the whole tenant) has any object."""
        by_namespace = self._counts.get(tenant_key, {})
        if namespace is not None:
            return list(by_namespace.get(namespace, ()))
        return list(dict.fromkeys(resource for counts in by_namespace.values() for resource in counts))

    def dependents(self, tenant_key: TenantKey, uid: str) -> list[TenantObject]:
        return list(one_or_many.each(self._dependents.get((tenant_key.plane, tenant_key.tenant, uid))))

    def _count(self, resource: Resource, key: ObjectKey) -> None:
        namespaces = self._counts.setdefault(key.tenant_key, {})
        counts = namespaces.get(key.namespace)
        if counts is None:
            counts = namespaces[key.namespace] = Counter()
        counts[resource] += 1

    def _discount(self, resource: Resource, key: ObjectKey) -> None:
        namespaces = self._counts[key.tenant_key]
        counts = namespaces[key.namespace]
        counts[resource] -= 1
        if not counts[resource]:
            del counts[resource]
            if not counts:
                del namespaces[key.namespace]
                if not namespaces:
                    del self._counts[key.tenant_key]

    def _add_dependent(self, resource: Resource, key: ObjectKey, uids: Iterable[str]) -> None:
        for uid in uids:
            dependent = TenantObject(resource, key.namespace, key.name)
            owner = (key.plane, key.tenant, uid)
            self._dependents[owner] = one_or_many.added(self._dependents.get(owner), dependent)

    def _remove_dependent(self, resource: Resource, key: ObjectKey, uids: Iterable[str]) -> None:
        for uid in uids:
            owner = (key.plane, key.tenant, uid)
            dependent = TenantObject(resource, key.namespace, key.name)
            dependents = one_or_many.removed(self._dependents[owner], dependent)
            if dependents is not None:
                self._dependents[owner] = dependents
            else:
                del self._dependents[owner]


def _owners(obj: Object) -> dict[str, None]:
    metadata = obj.get("metadata") or {}
    return dict.fromkeys(owner["uid"] for owner in metadata.get("ownerReferences") or ())
