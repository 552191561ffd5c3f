"""The collector over all kinds of all tenants, by their metadata.

Owners are looked for in the dependent's own tenant only, by kind, name and uid: a reference can never
reach into another tenant. An owner with a namespace counts only in the dependent's own namespace; a
reference from an object without namespace to one with is never followed, nor is one to an unknown kind:
what cannot be judged is left alone. An owner is believed gone only when the server has said so, by the
watch that deleted it or by being asked: no two watches are at the same revision.
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.errors import Conflict, NotFound
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import Patch
from alcove.client.keys import ObjectKey
from alcove.client.resources import PODS, Resource
from alcove.controllers.concurrency import together
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.deletion import delete_as_known
from alcove.controllers.garbage import plan
from alcove.controllers.garbage.absent_owners import AbsentOwners
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
from alcove.controllers.metadata_cache import ObjectMetadata

INVALID_NAMESPACE = "OwnerRefInvalidNamespace"


class GarbageItem(ObjectKey, frozen=True, order=True):
    """A key that says what it is a key of."""

    resource: Resource


class GarbageCollector(Controller):
    name = "garbage-collector"
    resource = PODS
    workers = 32

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._gone = AbsentOwners()
        self.on_any_object(self._concerned)

    async def fresh(self, key: ObjectKey) -> None:
        await self.metadata_cache.caught_up(key.plane, key.tenant)

    # Whom a change concerns

    def _concerned(self, resource: Resource, change: ObjectChange) -> Iterable[GarbageItem]:
        known = ObjectMetadata(resource, change.key, change.obj["metadata"])
        if change.kind is ChangeType.DELETED:
            self._gone.add(known.uid)
            yield from map(_item, self.metadata_cache.dependents(change.key.tenant_key, known.uid))
            yield from self._waiting_owners(known)
            return
        if known.owners or ORPHAN in known.finalizers or FOREGROUND in known.finalizers:
            yield _item(known)
        if plan.waits(known):
            yield from map(_item, self.metadata_cache.dependents(change.key.tenant_key, known.uid))
        if change.kind is ChangeType.UPDATED and (old := change.old) is not None:
            # An owner no longer blocked, by a change of references.
            yield from self._waiting_owners(ObjectMetadata(resource, change.key, old["metadata"]))

    def _waiting_owners(self, known: ObjectMetadata) -> Iterable[GarbageItem]:
        for reference in known.owners:
            owner = self._mirrored(known, reference)
            if owner is not None and plan.waits(owner):
                yield _item(owner)

    # Reconciling

    async def reconcile(self, key: ObjectKey) -> Result:
        assert isinstance(key, GarbageItem)
        known = self.metadata_cache.get(key.resource, key)
        if known is None:
            return DONE
        judged = await self._judge(known) if plan.needs_owners(known) else []
        has_dependents = bool(judged) and bool(self.metadata_cache.dependents(key.tenant_key, known.uid))
        match plan.decide(known, judged, has_dependents=has_dependents):
            case KeepObject(dropped=dropped):
                if dropped:
                    await self._patch(known, plan.without_owners(known, dropped))
            case DeleteObject(propagation=propagation):
                await delete_as_known(
                    self.client(key), known.resource, key, known.metadata, propagation=propagation
                )
            case OrphanDependents():
                await self._orphan(known)
            case WaitForDependents():
                await self._wait(known)
        return DONE

    async def _orphan(self, known: ObjectMetadata) -> None:
        uids = frozenset({known.uid})
        dependents = self.metadata_cache.dependents(known.key.tenant_key, known.uid)
        await together(self._patch(each, plan.without_owners(each, uids)) for each in dependents)
        if not dependents:
            await self._patch(known, plan.without_finalizer(known, ORPHAN))
        else:
            # The patches come back through the mirrors; only what they show is believed.
            raise _Again("dependents are being orphaned")

    async def _wait(self, known: ObjectMetadata) -> None:
        """Its dependents were told of it, and go by their own turns."""
        dependents = self.metadata_cache.dependents(known.key.tenant_key, known.uid)
        if not any(plan.blocks(each, known.uid) for each in dependents):
            await self._patch(known, plan.without_finalizer(known, FOREGROUND))
        elif any(owner.get("blockOwnerDeletion") for owner in known.owners):
            tenant_key = known.key.tenant_key
            if plan.is_in_circle(known, lambda owner: self.metadata_cache.dependents(tenant_key, owner.uid)):
                await self._patch(known, plan.unblocking(known))

    async def _patch(self, known: ObjectMetadata, patch: Object) -> None:
        key = known.key
        try:
            await self.client(key).patch(
                key.tenant, known.resource, key.name, patch, namespace=key.namespace, kind=Patch.MERGE
            )
        except NotFound:
            pass

    # Judging owners

    async def _judge(self, known: ObjectMetadata) -> list[JudgedReference]:
        return [JudgedReference(reference, await self._owner(known, reference)) for reference in known.owners]

    async def _owner(self, known: ObjectMetadata, reference: Object) -> OwnerState:
        place = self._place(known, reference)
        if place is None:
            return OwnerState.SOLID
        if reference["uid"] in self._gone:
            return OwnerState.GONE
        owner = self.metadata_cache.get(place.resource, place)
        if owner is None or owner.uid != reference["uid"]:
            return await self._asked(place, reference["uid"])
        return OwnerState.WAITING if plan.waits(owner) else OwnerState.SOLID

    def _place(self, known: ObjectMetadata, reference: Object) -> GarbageItem | None:
        """Where the owner must be; None: the reference cannot be followed."""
        group, _, _ = str(reference["apiVersion"]).rpartition("/")
        resource = self.metadata_cache.kind(known.key.tenant_key, group, reference["kind"])
        if resource is None:
            return None
        if resource.namespaced and not known.key.namespace:
            self._tell_invalid(known, reference)
            return None
        key = known.key
        namespace = key.namespace if resource.namespaced else ""
        return GarbageItem(key.plane, key.tenant, namespace, reference["name"], resource)

    def _mirrored(self, known: ObjectMetadata, reference: Object) -> ObjectMetadata | None:
        place = self._place(known, reference)
        owner = self.metadata_cache.get(place.resource, place) if place is not None else None
        return owner if owner is not None and owner.uid == reference["uid"] else None

    async def _asked(self, place: GarbageItem, uid: str) -> OwnerState:
        """The mirror has no such owner: perhaps it is too new, perhaps it never was."""
        try:
            found = await self.client(place).get(
                place.tenant, place.resource, place.name, namespace=place.namespace
            )
        except NotFound:
            self._gone.add(uid)
            return OwnerState.GONE
        if found["metadata"]["uid"] != uid:
            self._gone.add(uid)
            return OwnerState.GONE
        return OwnerState.SOLID

    def _tell_invalid(self, known: ObjectMetadata, reference: Object) -> None:
        message = f'ownerRef [{reference["kind"]} {reference["name"]}] does not exist in namespace ""'
        self.events.warning(known.key.plane, _described(known), INVALID_NAMESPACE, message)


class _Again(Conflict):
    """What is known is outdated, by our own doing: look again."""


def _item(known: ObjectMetadata) -> GarbageItem:
    key = known.key
    return GarbageItem(key.plane, key.tenant, key.namespace, key.name, known.resource)


def _described(known: ObjectMetadata) -> Object:
    resource = known.resource
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": known.metadata}
