"""The provisioner of local volumes: creates them on the node that the scheduler selected, expands them, and
releases those whose node was deleted.

A volume is created in the claim's tenant, and no request of this controller involves two tenants: a claim can
never be bound to another tenant's volume.
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import local_volumes, objects
from alcove.api.errors import AlreadyExists, NotFound
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object, get
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.volumes import facts, local
from alcove.controllers.volumes.protection import is_held, remove_finalizer


class LocalProvisioner(Controller):
    name = "local-volume"
    resource = PERSISTENT_VOLUME_CLAIMS
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._claims = self.mirror(
            PERSISTENT_VOLUME_CLAIMS, {facts.VOLUME: facts.volume_of, facts.CLASS: facts.waiting_class}
        )
        self._classes = self.mirror(STORAGE_CLASSES)
        self._volumes = self.mirror(PERSISTENT_VOLUMES, {"node": _node})
        self._volumes.index_tenants("node")
        self._nodes = self.nodes()
        self.on(self._claims)
        self.on(self._classes, self._of_class)
        self.on(self._volumes, self._of_volume)
        self.on(self._nodes, self._of_node)

    def _of_class(self, change: ObjectChange) -> Iterable[ObjectKey]:
        key = change.key
        return self._claims.find_keys(facts.CLASS, key.plane, key.tenant, key.name)

    def _of_volume(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """The volume's claim, which may have to be expanded; the volume itself while it is terminating."""
        if local_volumes.is_local(change.obj) and change.kind is not ChangeType.DELETED:
            for claim_name in facts.claim_of(change.obj):
                yield facts.key_of(change.key, claim_name)
            if is_held(change.obj, local_volumes.FINALIZER):
                yield change.key

    def _of_node(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if change.kind is ChangeType.DELETED:
            yield from self._volumes.find_keys_of_all("node", change.key.name)

    async def reconcile(self, key: ObjectKey) -> Result:
        if not key.namespace:
            return await self._release(key)
        claim = self._claims.get(key)
        if claim is None:
            return DONE
        chosen = self._classes.get(key.of(facts.class_of(claim), ""))
        if chosen is not None and local.wants(claim, chosen):
            await self._provision(key, claim, chosen)
        elif facts.phase(claim) == "Bound":
            await self._expand(key, claim)
        return DONE

    # Provisioning

    async def _provision(self, key: ObjectKey, claim: Object, chosen: Object) -> None:
        if message := local.find_problem(claim, chosen):
            self._report_failure(key, claim, message)
            return
        node = objects.annotations(claim)[facts.SELECTED_NODE]
        if not await self._node_exists(node):
            self._report_failure(key, claim, f'node "{node}" not found')
            await self._reschedule(key, claim)
            return
        volume = local.volume(claim, chosen, node)
        name = volume["metadata"]["name"]
        if key.of(name, "") in self._volumes:
            return
        self.events.normal(
            key.plane,
            claim,
            "Provisioning",
            f'Provisioning a volume for claim "{facts.namespaced_name(key)}"',
        )
        try:
            await self.client(key).create(key.tenant, PERSISTENT_VOLUMES, volume)
        except AlreadyExists:
            return
        self.events.normal(
            key.plane, claim, "ProvisioningSucceeded", f"Successfully provisioned volume {name}"
        )

    def _report_failure(self, key: ObjectKey, claim: Object, cause: str) -> None:
        name = facts.class_of(claim)
        message = f'failed to provision volume with StorageClass "{name}": {cause}'
        self.events.warning(key.plane, claim, "ProvisioningFailed", message)

    async def _reschedule(self, key: ObjectKey, claim: Object) -> None:
        """Removes the selected-node annotation, so that the scheduler selects another node."""
        version = claim["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version, "annotations": {facts.SELECTED_NODE: None}}}
        await self.client(key).patch(
            key.tenant, PERSISTENT_VOLUME_CLAIMS, key.name, patch, namespace=key.namespace
        )

    async def _node_exists(self, node: str) -> bool:
        """Reads from the server if the mirror does not have the node."""
        if ObjectKey(HOME, SYSTEM, "", node) in self._nodes:
            return True
        try:
            obj = await self.context.planes.client(HOME).get(SYSTEM, NODES, node) if node else None
        except NotFound:
            return False
        return obj is not None

    # Expansion

    async def _expand(self, key: ObjectKey, claim: Object) -> None:
        """Sets the volume's capacity to the claim's request. The API server checked allowVolumeExpansion
        when the claim was changed; a local volume is a directory and needs no resizing."""
        volume = self._volumes.get(key.of(get(claim, "spec", "volumeName", default=""), ""))
        desired = facts.requested(claim)
        if volume is None or not local_volumes.is_local(volume) or not facts.is_meant_for(volume, claim):
            return
        size = {"storage": str(desired)}
        if facts.capacity(volume) < desired:
            patch = {"metadata": {"uid": volume["metadata"]["uid"]}, "spec": {"capacity": size}}
            name = volume["metadata"]["name"]
            volume = await self.client(key).patch(key.tenant, PERSISTENT_VOLUMES, name, patch)
        reported = get(claim, "status", "capacity", "storage")
        if reported is not None and reported != str(facts.capacity(volume)):
            claim["status"]["capacity"] = {"storage": str(facts.capacity(volume))}
            await self.client(key).update(key.tenant, PERSISTENT_VOLUME_CLAIMS, claim, subresource="status")
            self.events.normal(
                key.plane,
                claim,
                "VolumeResizeSuccessful",
                f"Resize volume succeeded: {reported} to {desired}",
            )

    # Release

    async def _release(self, key: ObjectKey) -> Result:
        """A node erases its terminating volumes and removes the finalizer; for a deleted node it is removed
        here."""
        volume = self._volumes.get(key)
        if volume is None or not is_held(volume, local_volumes.FINALIZER):
            return DONE
        if not await self._node_exists(local_volumes.node_of(volume)):
            await remove_finalizer(self.client(key), PERSISTENT_VOLUMES, key, volume, local_volumes.FINALIZER)
        return DONE


def _node(volume: Object) -> Iterable[str]:
    node = local_volumes.node_of(volume)
    return [node] if node else []
