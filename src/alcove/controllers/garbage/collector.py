"""The garbage collector over all kinds of all tenants, based on metadata.

Owners are looked up only in the dependent's tenant, by kind, name and uid: a reference can never reach into
another tenant. A namespaced owner must be in the dependent's namespace. A reference from a cluster-scoped
object to a namespaced one is never followed: such objects are kept. So are objects whose owner is of an unknown
kind, until a CRD defines it. An owner counts as deleted only if its watch reported the deletion or a read returned
404 or another uid, because watches of different resources are not at the same revision. An owner that only a read
returned may be deleted before its watch begins: its dependents are looked at again until the watch has it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from alcove.api.errors import Conflict, NotFound
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import Patch
from alcove.client.keys import ObjectKey, PlaneId
from alcove.client.resources import PODS, Resource
from alcove.controllers.concurrency import gather_all
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.deletion import delete_if_unchanged
from alcove.controllers.garbage import plan
from alcove.controllers.garbage.plan import (
    FOREGROUND,
    ORPHAN,
    DeleteObject,
    JudgedReference,
    KeepObject,
    OrphanDependents,
    OwnerState,
    WaitForDependents,
)
from alcove.controllers.metadata_cache import ObjectMetadata, resource_of

INVALID_NAMESPACE = "OwnerRefInvalidNamespace"


class GarbageItem(ObjectKey, frozen=True, order=True):
    """A key with the resource of its object."""

    resource: Resource


ABSENT_SLOTS = 1 << 14


class GarbageCollector(Controller):
    name = "garbage-collector"
    resource = PODS
    workers = 32

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._absent = AbsentOwners()
        self._undefined = UndefinedKinds()
        self.on_any_object(self._enqueued)
        self.on(self.metadata_cache.crds, self._defined)

    async def wait_for_mirrors(self, key: ObjectKey) -> None:
        await self.metadata_cache.caught_up(key.plane, key.tenant)

    # Keys to enqueue

    def _enqueued(self, resource: Resource, change: ObjectChange) -> Iterable[GarbageItem]:
        obj = ObjectMetadata(resource, change.key, change.obj["metadata"])
        if change.kind is ChangeType.DELETED:
            # Objects of a tenant that has moved to another plane exist there.
            if change.key.plane == self.context.planes.serving(change.key.tenant):
                self._absent.add(change.key.tenant, obj.uid)
            self._undefined.discard(obj)
            yield from map(_item, self.metadata_cache.dependents(change.key.tenant_key, obj.uid))
            yield from self._waiting_owners(obj)
            return
        if obj.owners or ORPHAN in obj.finalizers or FOREGROUND in obj.finalizers:
            yield _item(obj)
        if plan.waits(obj):
            yield from map(_item, self.metadata_cache.dependents(change.key.tenant_key, obj.uid))
        if change.kind is ChangeType.UPDATED and (old := change.old) is not None:
            # A change of references may unblock an owner.
            yield from self._waiting_owners(ObjectMetadata(resource, change.key, old["metadata"]))

    def _defined(self, change: ObjectChange) -> Iterable[GarbageItem]:
        """Dependents of the kind that a CRD defines."""
        resource = resource_of(change.obj) if change.kind is not ChangeType.DELETED else None
        return self._undefined.pop(change.key, resource) if resource is not None else ()

    def _waiting_owners(self, obj: ObjectMetadata) -> Iterable[GarbageItem]:
        for reference in obj.owners:
            owner = self._mirrored(obj, reference)
            if owner is not None and plan.waits(owner):
                yield _item(owner)

    # Reconciling

    async def reconcile(self, key: ObjectKey) -> Result:
        assert isinstance(key, GarbageItem)
        obj = self.metadata_cache.get(key.resource, key)
        if obj is None:
            return DONE
        evaluated = await self._evaluate_owners(obj) if plan.needs_owners(obj) else []
        has_dependents = bool(evaluated) and bool(self.metadata_cache.dependents(key.tenant_key, obj.uid))
        match plan.decide(obj, evaluated, has_dependents=has_dependents):
            case KeepObject(dropped=dropped):
                if dropped:
                    await self._patch(obj, plan.without_owners(obj, dropped))
            case DeleteObject(propagation=propagation):
                await delete_if_unchanged(
                    self.client(key), obj.resource, key, obj.metadata, propagation=propagation
                )
            case OrphanDependents():
                await self._orphan(obj)
            case WaitForDependents():
                await self._wait(obj)
        return DONE

    async def _orphan(self, obj: ObjectMetadata) -> None:
        uids = frozenset({obj.uid})
        dependents = self.metadata_cache.dependents(obj.key.tenant_key, obj.uid)
        await gather_all(self._patch(each, plan.without_owners(each, uids)) for each in dependents)
        if not dependents:
            await self._patch(obj, plan.without_finalizer(obj, ORPHAN))
        else:
            # Retried until the mirrors show the patched dependents.
            raise _Again("dependents are being orphaned")

    async def _wait(self, obj: ObjectMetadata) -> None:
        """Releases an owner in foreground deletion once no dependent blocks it. The dependents were enqueued
        with the owner and are deleted by their own reconciles."""
        dependents = self.metadata_cache.dependents(obj.key.tenant_key, obj.uid)
        if not any(plan.blocks(each, obj.uid) for each in dependents):
            await self._patch(obj, plan.without_finalizer(obj, FOREGROUND))
        elif any(owner.get("blockOwnerDeletion") for owner in obj.owners):
            tenant_key = obj.key.tenant_key
            if plan.is_in_circle(obj, lambda owner: self.metadata_cache.dependents(tenant_key, owner.uid)):
                await self._patch(obj, plan.unblocking(obj))

    async def _patch(self, obj: ObjectMetadata, patch: Object) -> None:
        key = obj.key
        try:
            await self.client(key).patch(
                key.tenant, obj.resource, key.name, patch, namespace=key.namespace, kind=Patch.MERGE
            )
        except NotFound:
            pass

    # Evaluating owners

    async def _evaluate_owners(self, obj: ObjectMetadata) -> list[JudgedReference]:
        return [
            JudgedReference(reference, await self._evaluate_owner(obj, reference)) for reference in obj.owners
        ]

    async def _evaluate_owner(self, obj: ObjectMetadata, reference: Object) -> OwnerState:
        key = self._owner_key(obj, reference)
        if key is None:
            if self.metadata_cache.kind(obj.key.tenant_key, *_kind(reference)) is None:
                self._undefined.add(obj, *_kind(reference))
            return OwnerState.SOLID
        if self._absent.has(key.tenant, reference["uid"]):
            return OwnerState.GONE
        owner = self.metadata_cache.get(key.resource, key)
        if owner is None or owner.uid != reference["uid"]:
            return await self._read_owner(key, reference["uid"])
        return OwnerState.WAITING if plan.waits(owner) else OwnerState.SOLID

    def _owner_key(self, obj: ObjectMetadata, reference: Object) -> GarbageItem | None:
        """The key that the owner must have. None if the reference cannot be followed."""
        resource = self.metadata_cache.kind(obj.key.tenant_key, *_kind(reference))
        if resource is None:
            return None
        if resource.namespaced and not obj.key.namespace:
            self._report_invalid(obj, reference)
            return None
        key = obj.key
        namespace = key.namespace if resource.namespaced else ""
        return GarbageItem(key.plane, key.tenant, namespace, reference["name"], resource)

    def _mirrored(self, obj: ObjectMetadata, reference: Object) -> ObjectMetadata | None:
        key = self._owner_key(obj, reference)
        owner = self.metadata_cache.get(key.resource, key) if key is not None else None
        return owner if owner is not None and owner.uid == reference["uid"] else None

    async def _read_owner(self, key: GarbageItem, uid: str) -> OwnerState:
        """Reads an owner that the mirror does not have: it may be new, or may never have existed. Raises _Again if
        it exists."""
        try:
            owner = await self.client(key).get(key.tenant, key.resource, key.name, namespace=key.namespace)
        except NotFound:
            self._absent.add(key.tenant, uid)
            return OwnerState.GONE
        if owner["metadata"]["uid"] != uid:
            self._absent.add(key.tenant, uid)
            return OwnerState.GONE
        raise _Again("the mirror does not have the owner yet")

    def _report_invalid(self, obj: ObjectMetadata, reference: Object) -> None:
        message = f'ownerRef [{reference["kind"]} {reference["name"]}] does not exist in namespace ""'
        self.events.warning(obj.key.plane, _described(obj), INVALID_NAMESPACE, message)


class _Again(Conflict):
    """The cached state is outdated; retry."""


def _item(obj: ObjectMetadata) -> GarbageItem:
    key = obj.key
    return GarbageItem(key.plane, key.tenant, key.namespace, key.name, obj.resource)


def _kind(reference: Object) -> tuple[str, str]:
    """The API group and kind of an owner."""
    group, _, _ = str(reference["apiVersion"]).rpartition("/")
    return group, reference["kind"]


def _described(obj: ObjectMetadata) -> Object:
    resource = obj.resource
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": obj.metadata}


class UndefinedKinds:
    """Objects with an owner of a kind that their tenant does not have, by that kind."""

    def __init__(self) -> None:
        self._dependents: dict[tuple[PlaneId, str, str], dict[TenantId, set[GarbageItem]]] = {}

    def add(self, obj: ObjectMetadata, group: str, kind: str) -> None:
        tenants = self._dependents.setdefault((obj.key.plane, group, kind), {})
        tenants.setdefault(obj.key.tenant, set()).add(_item(obj))

    def discard(self, obj: ObjectMetadata) -> None:
        for reference in obj.owners:
            entry, tenant = (obj.key.plane, *_kind(reference)), obj.key.tenant
            dependents = self._dependents.get(entry, {}).get(tenant)
            if dependents is not None:
                dependents.discard(_item(obj))
                if not dependents:
                    self._forget(entry, tenant)

    def pop(self, crd: ObjectKey, resource: Resource) -> set[GarbageItem]:
        """The objects that wait for this CRD, which are forgotten. All tenants have ring0's CRDs."""
        entry = (crd.plane, resource.group, resource.kind)
        waiting = self._dependents.get(entry, {})
        tenants = list(waiting) if crd.tenant == SYSTEM else [crd.tenant]
        items: set[GarbageItem] = set()
        for tenant in tenants:
            items |= waiting.get(tenant, set())
            self._forget(entry, tenant)
        return items

    def _forget(self, entry: tuple[PlaneId, str, str], tenant: TenantId) -> None:
        tenants = self._dependents.get(entry, {})
        tenants.pop(tenant, None)
        if not tenants:
            self._dependents.pop(entry, None)


class AbsentOwners:
    """A cache of uids of deleted objects, by tenant: an API server of its own may say anything. Uids are never reused, so
    the server need not be asked about them again.

    A hash table of fixed size; on a collision the newer entry replaces the older. It stores hashes instead
    of strings: the strings are allocated during a burst of deletions, and each would keep a page of memory
    from being released. Python's string hashes are keyed per process, so a tenant cannot construct
    collisions.
    """

    def __init__(self) -> None:
        self._hashes = array("q", bytes(8 * ABSENT_SLOTS))

    def add(self, tenant: TenantId, uid: str) -> None:
        hashed = hash((tenant, uid))
        self._hashes[hashed % ABSENT_SLOTS] = hashed

    def has(self, tenant: TenantId, uid: str) -> bool:
        hashed = hash((tenant, uid))
        return hashed != 0 and self._hashes[hashed % ABSENT_SLOTS] == hashed
