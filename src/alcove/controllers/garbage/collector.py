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
from alcove.client.changes import Change, Kind
from alcove.client.client import Patch
from alcove.client.keys import ObjectKey
from alcove.client.resources import PODS, Resource
from alcove.controllers.controller import DONE, Controller, Result, Setup
from alcove.controllers.deletion import delete_as_known
from alcove.controllers.everything import Known
from alcove.controllers.garbage import plan
from alcove.controllers.garbage.gone import Gone
from alcove.controllers.garbage.plan import FOREGROUND, ORPHAN, Delete, Judged, Keep, Orphan, Owner, Wait
from alcove.controllers.together import together

INVALID_NAMESPACE = "OwnerRefInvalidNamespace"


class Item(ObjectKey, frozen=True, order=True):
    """A key that says what it is a key of."""

    resource: Resource


class GarbageCollector(Controller):
    name = "garbage-collector"
    resource = PODS
    workers = 32

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._gone = Gone()
        self.on_everything(self._concerned)

    async def fresh(self, key: ObjectKey) -> None:
        await self.everything.caught_up(key.plane, key.tenant)

    # Whom a change concerns

    def _concerned(self, resource: Resource, change: Change) -> Iterable[Item]:
        known = Known(resource, change.key, change.obj["metadata"])
        if change.kind is Kind.DELETED:
            self._gone.add(known.uid)
            yield from map(_item, self.everything.dependents(change.key.space, known.uid))
            yield from self._waiting_owners(known)
            return
        if known.owners or ORPHAN in known.finalizers or FOREGROUND in known.finalizers:
            yield _item(known)
        if plan.waits(known):
            yield from map(_item, self.everything.dependents(change.key.space, known.uid))
        if change.kind is Kind.UPDATED and (old := change.old) is not None:
            # An owner no longer blocked, by a change of references.
            yield from self._waiting_owners(Known(resource, change.key, old["metadata"]))

    def _waiting_owners(self, known: Known) -> Iterable[Item]:
        for reference in known.owners:
            owner = self._mirrored(known, reference)
            if owner is not None and plan.waits(owner):
                yield _item(owner)

    # Reconciling

    async def reconcile(self, key: ObjectKey) -> Result:
        assert isinstance(key, Item)
        known = self.everything.get(key.resource, key)
        if known is None:
            return DONE
        judged = await self._judge(known) if plan.needs_owners(known) else []
        has_dependents = bool(judged) and bool(self.everything.dependents(key.space, known.uid))
        match plan.decide(known, judged, has_dependents=has_dependents):
            case Keep(dropped=dropped):
                if dropped:
                    await self._patch(known, plan.without_owners(known, dropped))
            case Delete(propagation=propagation):
                await delete_as_known(
                    self.client(key), known.resource, key, known.metadata, propagation=propagation
                )
            case Orphan():
                await self._orphan(known)
            case Wait():
                await self._wait(known)
        return DONE

    async def _orphan(self, known: Known) -> None:
        uids = frozenset({known.uid})
        dependents = self.everything.dependents(known.key.space, known.uid)
        await together(self._patch(each, plan.without_owners(each, uids)) for each in dependents)
        if not dependents:
            await self._patch(known, plan.without_finalizer(known, ORPHAN))
        else:
            # The patches come back through the mirrors; only what they show is believed.
            raise _Again("dependents are being orphaned")

    async def _wait(self, known: Known) -> None:
        """Its dependents were told of it, and go by their own turns."""
        dependents = self.everything.dependents(known.key.space, known.uid)
        if not any(plan.blocks(each, known.uid) for each in dependents):
            await self._patch(known, plan.without_finalizer(known, FOREGROUND))
        elif any(owner.get("blockOwnerDeletion") for owner in known.owners):
            space = known.key.space
            if plan.is_in_circle(known, lambda owner: self.everything.dependents(space, owner.uid)):
                await self._patch(known, plan.unblocking(known))

    async def _patch(self, known: Known, patch: Object) -> None:
        key = known.key
        try:
            await self.client(key).patch(
                key.tenant, known.resource, key.name, patch, namespace=key.namespace, kind=Patch.MERGE
            )
        except NotFound:
            pass

    # Judging owners

    async def _judge(self, known: Known) -> list[Judged]:
        return [Judged(reference, await self._owner(known, reference)) for reference in known.owners]

    async def _owner(self, known: Known, reference: Object) -> Owner:
        place = self._place(known, reference)
        if place is None:
            return Owner.SOLID
        if reference["uid"] in self._gone:
            return Owner.GONE
        owner = self.everything.get(place.resource, place)
        if owner is None or owner.uid != reference["uid"]:
            return await self._asked(place, reference["uid"])
        return Owner.WAITING if plan.waits(owner) else Owner.SOLID

    def _place(self, known: Known, reference: Object) -> Item | None:
        """Where the owner must be; None: the reference cannot be followed."""
        group, _, _ = str(reference["apiVersion"]).rpartition("/")
        resource = self.everything.kind(known.key.space, group, reference["kind"])
        if resource is None:
            return None
        if resource.namespaced and not known.key.namespace:
            self._tell_invalid(known, reference)
            return None
        key = known.key
        namespace = key.namespace if resource.namespaced else ""
        return Item(key.plane, key.tenant, namespace, reference["name"], resource)

    def _mirrored(self, known: Known, reference: Object) -> Known | None:
        place = self._place(known, reference)
        owner = self.everything.get(place.resource, place) if place is not None else None
        return owner if owner is not None and owner.uid == reference["uid"] else None

    async def _asked(self, place: Item, uid: str) -> Owner:
        """The mirror has no such owner: perhaps it is too new, perhaps it never was."""
        try:
            found = await self.client(place).get(
                place.tenant, place.resource, place.name, namespace=place.namespace
            )
        except NotFound:
            self._gone.add(uid)
            return Owner.GONE
        if found["metadata"]["uid"] != uid:
            self._gone.add(uid)
            return Owner.GONE
        return Owner.SOLID

    def _tell_invalid(self, known: Known, reference: Object) -> None:
        told = f'ownerRef [{reference["kind"]} {reference["name"]}] does not exist in namespace ""'
        self.events.warning(known.key.plane, _described(known), INVALID_NAMESPACE, told)


class _Again(Conflict):
    """What is known is outdated, by our own doing: look again."""


def _item(known: Known) -> Item:
    key = known.key
    return Item(key.plane, key.tenant, key.namespace, key.name, known.resource)


def _described(known: Known) -> Object:
    resource = known.resource
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": known.metadata}
