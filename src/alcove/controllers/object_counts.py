"""Who is where, counted as changes come: which kinds a tenant's namespaces have objects of, and whose
dependents objects are. Answers in the time of a lookup what would be a question to every mirror."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey, PlaneId, TenantKey
from alcove.client.resources import Resource


class TenantObject(Struct, frozen=True):
    """An object of a tenant."""

    resource: Resource
    namespace: str
    name: str


class ObjectCounts:
    def __init__(self) -> None:
        self._present: dict[TenantKey, dict[str, Counter[Resource]]] = {}
        """By namespace; under "" what has none."""
        self._owned: dict[tuple[PlaneId, TenantId, str], dict[TenantObject, None]] = {}

    def note(self, resource: Resource, change: ObjectChange) -> None:
        key = change.key
        match change.kind:
            case ChangeType.ADDED:
                self._count(resource, key)
                self._own(resource, key, _owners(change.obj))
            case ChangeType.UPDATED:
                old, new = _owners(change.old or {}), _owners(change.obj)
                if old != new:
                    self._disown(resource, key, old)
                    self._own(resource, key, new)
            case ChangeType.DELETED:
                self._discount(resource, key)
                self._disown(resource, key, _owners(change.old or change.obj))

    def resources(self, tenant_key: TenantKey, namespace: str | None) -> Iterable[Resource]:
        """Those that the namespace (None: the whole tenant) has any object of."""
        there = self._present.get(tenant_key, {})
        if namespace is not None:
            return list(there.get(namespace, ()))
        return list(dict.fromkeys(resource for counts in there.values() for resource in counts))

    def dependents(self, tenant_key: TenantKey, uid: str) -> list[TenantObject]:
        return list(self._owned.get((tenant_key.plane, tenant_key.tenant, uid), ()))

    def _count(self, resource: Resource, key: ObjectKey) -> None:
        namespaces = self._present.setdefault(key.tenant_key, {})
        counts = namespaces.get(key.namespace)
        if counts is None:
            counts = namespaces[key.namespace] = Counter()
        counts[resource] += 1

    def _discount(self, resource: Resource, key: ObjectKey) -> None:
        namespaces = self._present[key.tenant_key]
        counts = namespaces[key.namespace]
        counts[resource] -= 1
        if not counts[resource]:
            del counts[resource]
            if not counts:
                del namespaces[key.namespace]
                if not namespaces:
                    del self._present[key.tenant_key]

    def _own(self, resource: Resource, key: ObjectKey, uids: Iterable[str]) -> None:
        for uid in uids:
            named = TenantObject(resource, key.namespace, key.name)
            self._owned.setdefault((key.plane, key.tenant, uid), {})[named] = None

    def _disown(self, resource: Resource, key: ObjectKey, uids: Iterable[str]) -> None:
        for uid in uids:
            mark = (key.plane, key.tenant, uid)
            owned = self._owned[mark]
            del owned[TenantObject(resource, key.namespace, key.name)]
            if not owned:
                del self._owned[mark]


def _owners(obj: Object) -> dict[str, None]:
    metadata = obj.get("metadata") or {}
    return dict.fromkeys(owner["uid"] for owner in metadata.get("ownerReferences") or ())
