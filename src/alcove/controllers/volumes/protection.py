"""Protection of storage in use: holds terminating claims until no pod uses them, and terminating volumes
until they are no longer bound."""

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
    """Whether the object is terminating and has this finalizer."""
    metadata = obj["metadata"]
    return "deletionTimestamp" in metadata and finalizer in (metadata.get("finalizers") or ())


async def remove_finalizer(
    client: Client, resource: Resource, key: ObjectKey, obj: Object, finalizer: str
) -> None:
    metadata = obj["metadata"]
    remaining = [each for each in metadata["finalizers"] if each != finalizer]
    patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": remaining}}
    try:
        await client.patch(key.tenant, resource, key.name, patch, namespace=key.namespace)
    except NotFound:
        pass


def uses(pod: Object, claim: str) -> bool:
    """Whether the pod uses the claim (namespace/name). Unscheduled pods do not count, because they cannot
    start with a terminating claim; neither do finished ones."""
    is_bound = bool(get(pod, "spec", "nodeName"))
    return is_bound and not pods.is_finished(pod) and claim in facts.claims_of(pod)


class ClaimProtection(Controller):
    name = "pvc-protection"
    resource = PERSISTENT_VOLUME_CLAIMS
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._claims = self.mirror(PERSISTENT_VOLUME_CLAIMS)
        self._pods = self.mirror(PODS, {facts.CLAIM: facts.claims_of})
        self.on(self._claims, self._of_terminating)
        self.on(self._pods, self._of_finished_pod)

    def _of_terminating(self, change: ObjectChange) -> Iterable[ObjectKey]:
        return (change.key,) if is_held(change.obj, CLAIM_FINALIZER) else ()

    def _of_finished_pod(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if change.kind is ChangeType.DELETED or pods.is_finished(change.obj):
            for claim in facts.claims_of(change.obj):
                yield facts.key_of(change.key, claim)

    async def reconcile(self, key: ObjectKey) -> Result:
        claim = self._claims.get(key)
        if claim is None or not is_held(claim, CLAIM_FINALIZER):
            return DONE
        claim_name, client = facts.namespaced_name(key), self.client(key)
        cached_pods = self._pods.find(facts.CLAIM, key.plane, key.tenant, claim_name)
        if any(uses(pod, claim_name) for pod in cached_pods):
            return DONE
        # Listed from the server: the mirror may not have a pod that was just bound.
        current_pods = await client.list(key.tenant, PODS, namespace=key.namespace)
        if not any(uses(pod, claim_name) for pod in current_pods):
            await remove_finalizer(client, PERSISTENT_VOLUME_CLAIMS, key, claim, CLAIM_FINALIZER)
        return DONE


class VolumeProtection(Controller):
    name = "pv-protection"
    resource = PERSISTENT_VOLUMES
    workers = 4

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._volumes = self.mirror(PERSISTENT_VOLUMES)
        self.on(self._volumes, self._of_terminating)

    def _of_terminating(self, change: ObjectChange) -> Iterable[ObjectKey]:
        return (change.key,) if is_held(change.obj, VOLUME_FINALIZER) else ()

    async def reconcile(self, key: ObjectKey) -> Result:
        volume = self._volumes.get(key)
        if volume is not None and is_held(volume, VOLUME_FINALIZER) and facts.phase(volume) != "Bound":
            await remove_finalizer(self.client(key), PERSISTENT_VOLUMES, key, volume, VOLUME_FINALIZER)
        return DONE
