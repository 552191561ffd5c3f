"""Binding of claims to volumes. Only volumes, classes and pods of the claim's tenant are considered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from alcove.api import objects
from alcove.api.errors import NotFound
from alcove.api.objects import Object, get
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.volumes import facts, plan, writes
from alcove.controllers.workloads import pods


class ClaimBinder(Controller):
    name = "persistentvolume"
    resource = PERSISTENT_VOLUME_CLAIMS
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        indexes = {facts.VOLUME: facts.volume_of, facts.CLASS: facts.waiting_class}
        self._claims = self.mirror(PERSISTENT_VOLUME_CLAIMS, indexes)
        self._volumes = self.mirror(
            PERSISTENT_VOLUMES, {facts.CLAIM: facts.claim_of, facts.FREE: facts.free_class}
        )
        self._classes = self.mirror(STORAGE_CLASSES)
        self._pods = self.mirror(PODS, {facts.CLAIM: facts.claims_of})
        self.on(self._claims)
        self.on(self._volumes, self._of_volume)
        self.on(self._classes, self._of_class)
        self.on(self._pods, self._of_pod)

    def _of_volume(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """The claim that the volume refers to, claims that name the volume, and unbound ones of its class."""
        key = change.key
        for claim_name in facts.claim_of(change.obj):
            yield facts.key_of(key, claim_name)
        yield from self._claims.find_keys(facts.VOLUME, key.plane, key.tenant, key.name)
        for name in facts.free_class(change.obj):
            yield from self._claims.find_keys(facts.CLASS, key.plane, key.tenant, name)

    def _of_class(self, change: ObjectChange) -> Iterable[ObjectKey]:
        key = change.key
        yield from self._claims.find_keys(facts.CLASS, key.plane, key.tenant, key.name)
        if _is_default(change.obj):
            yield from self._claims.find_keys(facts.CLASS, key.plane, key.tenant, "")

    def _of_pod(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """The claims of a new pod, which may be waiting for their first consumer."""
        if change.kind is ChangeType.ADDED:
            for claim_name in facts.claims_of(change.obj):
                yield facts.key_of(change.key, claim_name)

    async def reconcile(self, key: ObjectKey) -> Result:
        claim = self._claims.get(key)
        if claim is None:
            return DONE
        try:
            await self._step(key, claim)
        except NotFound:
            pass  # The claim or volume was deleted meanwhile; the watch event enqueues the claim again.
        return DONE

    async def _step(self, key: ObjectKey, claim: Object) -> None:
        step = plan.for_claim(claim, self._context_of(key, claim))
        match step:
            case plan.BindClaim():
                await self._bind(key, claim, step.volume)
            case plan.ClaimLost():
                if await self._write_status(key, writes.unbound_status(claim, "Lost")):
                    self._record_event(key, claim, step.event)
            case plan.WaitForVolume():
                await self._wait(key, claim, step)
            case _:
                assert_never(step)

    def _context_of(self, key: ObjectKey, claim: Object) -> plan.ClaimContext:
        name, class_name = get(claim, "spec", "volumeName", default=""), facts.class_of(claim)
        if name:
            return plan.ClaimContext(named=self._volumes.get(key.of(name, "")))
        return plan.ClaimContext(
            meant=self._volumes.find(facts.CLAIM, key.plane, key.tenant, facts.namespaced_name(key)),
            free=self._volumes.find(facts.FREE, key.plane, key.tenant, class_name),
            chosen=self._classes.get(key.of(class_name, "")) if class_name else None,
            default_class="" if class_name else self._default_class(key),
            user=self._user(key),
        )

    def _default_class(self, key: ObjectKey) -> str:
        """The newest default class; of several, the first by name. Empty if there is none."""
        defaults = [
            each["metadata"] for each in self._classes.list(key.plane, key.tenant) if _is_default(each)
        ]
        newest = max((each["creationTimestamp"] for each in defaults), default="")
        return min((each["name"] for each in defaults if each["creationTimestamp"] == newest), default="")

    def _user(self, key: ObjectKey) -> Object | None:
        users = self._pods.find(facts.CLAIM, key.plane, key.tenant, facts.namespaced_name(key))
        return next((pod for pod in users if pods.is_active(pod)), None)

    async def _bind(self, key: ObjectKey, claim: Object, volume: Object) -> None:
        """Writes the volume first: its claimRef decides between two claims for the same volume."""
        client = self.client(key)
        if (desired := writes.claimed(volume, claim)) is not None:
            volume = await client.update(key.tenant, PERSISTENT_VOLUMES, desired)
        if (desired := writes.bound(claim, volume)) is not None:
            claim = await client.update(key.tenant, PERSISTENT_VOLUME_CLAIMS, desired)
        await self._write_status(key, writes.bound_status(claim, volume))

    async def _wait(self, key: ObjectKey, claim: Object, wait: plan.WaitForVolume) -> None:
        client = self.client(key)
        if wait.takes_class:
            claim["spec"]["storageClassName"] = wait.takes_class
            await client.update(key.tenant, PERSISTENT_VOLUME_CLAIMS, claim)
            return
        if wait.provisioner and objects.annotations(claim).get(facts.STORAGE_PROVISIONER) != wait.provisioner:
            annotations = claim["metadata"].setdefault("annotations", {})
            annotations[facts.STORAGE_PROVISIONER] = wait.provisioner
            claim = await client.update(key.tenant, PERSISTENT_VOLUME_CLAIMS, claim)
        await self._write_status(key, writes.unbound_status(claim, "Pending"))
        if wait.event is not None:
            self._record_event(key, claim, wait.event)

    async def _write_status(self, key: ObjectKey, desired: Object | None) -> bool:
        if desired is not None:
            await self.client(key).update(key.tenant, PERSISTENT_VOLUME_CLAIMS, desired, subresource="status")
        return desired is not None

    def _record_event(self, key: ObjectKey, claim: Object, event: plan.EventNote) -> None:
        record = self.events.warning if event.is_warning else self.events.normal
        record(key.plane, claim, event.reason, event.message)


def _is_default(chosen: Object) -> bool:
    return any(objects.annotations(chosen).get(key) == "true" for key in facts.IS_DEFAULT)
