"""What is in use stays: deleted claims until no pod uses them, deleted volumes until no claim has them."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.errors import NotFound
from alcove.api.objects import Object, get
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import Client
from alcove.client.keys import ObjectKey
from alcove.client.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, Resource
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.volumes import facts
from alcove.controllers.workloads import pods

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"


def is_held(obj: Object, finalizer: str) -> bool:
    """It is deleted, and waits for this finalizer."""
    metadata = obj["metadata"]
    return "deletionTimestamp" in metadata and finalizer in (metadata.get("finalizers") or ())


async def let_go(client: Client, resource: Resource, key: ObjectKey, obj: Object, finalizer: str) -> None:
    metadata = obj["metadata"]
    rest = [each for each in metadata["finalizers"] if each != finalizer]
    patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": rest}}
    try:
        await client.patch(key.tenant, resource, key.name, patch, namespace=key.namespace)
    except NotFound:
        pass


def uses(pod: Object, place: str) -> bool:
    """A pod that no node has yet cannot start with a claim that is deleted; one that is over needs it not."""
    is_placed = bool(get(pod, "spec", "nodeName"))
    return is_placed and not pods.is_finished(pod) and place in facts.claims_of(pod)


class ClaimProtection(Controller):
    name = "pvc-protection"
    resource = PERSISTENT_VOLUME_CLAIMS
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._claims = self.mirror(PERSISTENT_VOLUME_CLAIMS)
        self._pods = self.mirror(PODS, {facts.CLAIM: facts.claims_of})
        self.on(self._claims, self._deleted)
        self.on(self._pods, self._freed)

    def _deleted(self, change: ObjectChange) -> Iterable[ObjectKey]:
        return (change.key,) if is_held(change.obj, CLAIM_FINALIZER) else ()

    def _freed(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if change.kind is ChangeType.DELETED or pods.is_finished(change.obj):
            for place in facts.claims_of(change.obj):
                yield facts.key_of(change.key, place)

    async def reconcile(self, key: ObjectKey) -> Result:
        claim = self._claims.get(key)
        if claim is None or not is_held(claim, CLAIM_FINALIZER):
            return DONE
        place, client = facts.namespaced_name(key), self.client(key)
        known = self._pods.find(facts.CLAIM, key.plane, key.tenant, place)
        if any(uses(pod, place) for pod in known):
            return DONE
        # A pod may have been placed that our watch has yet to tell of.
        there = await client.list(key.tenant, PODS, namespace=key.namespace)
        if not any(uses(pod, place) for pod in there):
            await let_go(client, PERSISTENT_VOLUME_CLAIMS, key, claim, CLAIM_FINALIZER)
        return DONE


class VolumeProtection(Controller):
    name = "pv-protection"
    resource = PERSISTENT_VOLUMES
    workers = 4

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._volumes = self.mirror(PERSISTENT_VOLUMES)
        self.on(self._volumes, self._deleted)

    def _deleted(self, change: ObjectChange) -> Iterable[ObjectKey]:
        return (change.key,) if is_held(change.obj, VOLUME_FINALIZER) else ()

    async def reconcile(self, key: ObjectKey) -> Result:
        volume = self._volumes.get(key)
        if volume is not None and is_held(volume, VOLUME_FINALIZER) and facts.phase(volume) != "Bound":
            await let_go(self.client(key), PERSISTENT_VOLUMES, key, volume, VOLUME_FINALIZER)
        return DONE
