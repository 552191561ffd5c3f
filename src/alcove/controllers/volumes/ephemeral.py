"""Creates the claims of generic ephemeral volumes, owned by their pods."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.errors import AlreadyExists
from alcove.api.objects import Object, get
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result, controller_of
from alcove.controllers.workloads import pods
from alcove.controllers.workloads.controller_refs import reference


class EphemeralClaims(Controller):
    name = "ephemeral-volume"
    resource = PODS
    workers = 4

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = self.mirror(PODS)
        self._claims = self.mirror(PERSISTENT_VOLUME_CLAIMS)
        self.on(self._pods, self._of_pod)
        self.on(self._claims, self._of_deleted_claim)

    def _of_pod(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if change.kind is not ChangeType.DELETED and any(_ephemeral(change.obj)):
            yield change.key

    def _of_deleted_claim(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """The pod of a deleted claim: the claim is created again while the pod is active."""
        owner = controller_of(change.obj) if change.kind is ChangeType.DELETED else None
        if owner is not None and owner.get("kind") == "Pod":
            yield change.key.of(owner["name"])

    async def reconcile(self, key: ObjectKey) -> Result:
        pod = self._pods.get(key)
        if pod is None or not pods.is_active(pod):
            return DONE
        for volume in _ephemeral(pod):
            await self._create_claim(key, pod, volume)
        return DONE

    async def _create_claim(self, key: ObjectKey, pod: Object, volume: Object) -> None:
        name = f"{key.name}-{volume['name']}"
        existing = self._claims.get(key.of(name))
        if existing is not None:
            owner = controller_of(existing)
            if owner is None or owner.get("uid") != pod["metadata"]["uid"]:
                message = f'PVC "{name}" was not created for the pod: pod is not owner'
                self.events.warning(key.plane, pod, "EphemeralVolumeConflict", message)
            return
        template = get(volume, "ephemeral", "volumeClaimTemplate", default={})
        template_metadata = {
            field: get(template, "metadata", field, default={}) for field in ("labels", "annotations")
        }
        metadata = {**template_metadata, "name": name, "ownerReferences": [reference(PODS, pod)]}
        claim = {"metadata": metadata, "spec": template["spec"]}
        try:
            await self.client(key).create(
                key.tenant, PERSISTENT_VOLUME_CLAIMS, claim, namespace=key.namespace
            )
        except AlreadyExists:
            pass


def _ephemeral(pod: Object) -> Iterable[Object]:
    return (each for each in get(pod, "spec", "volumes", default=()) if each.get("ephemeral"))
