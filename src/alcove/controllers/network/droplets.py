"""Droplets of nodes: every node has a droplet, which can hold endpoints while the node is ready."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import DROPLETS, NODES
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.network.owners import MADE_BY, MADE_LABEL, is_made
from alcove.vpc.states import ProvisioningState
from alcove.vpc.vpc_cache import VpcCache, key_of

NOT_READY = "NotReady"


class DropletController(Controller):
    name = "droplet"
    is_ring0 = True
    resource = NODES

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cache = cache = VpcCache(context.planes, context.clock)
        self._nodes = self.nodes()
        self.reads.append(cache.droplets)
        self.on(self._nodes, self._of_node)
        self.on(cache.droplets)

    def _of_node(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Ignores node updates that do not change the droplet, such as heartbeats."""
        old = change.old
        if (
            change.kind is ChangeType.UPDATED
            and old is not None
            and droplet_spec(old) == droplet_spec(change.obj)
        ):
            return ()
        return (change.key,)

    async def reconcile(self, key: ObjectKey) -> Result:
        node, droplet = self._nodes.get(key), self._cache.droplets.get(key_of(key.name))
        if node is None:
            if droplet is not None and is_made(droplet) and await self._cache.is_gone(NODES, key.name):
                await self._cache.delete(DROPLETS, key.name, droplet["metadata"]["uid"])
            return DONE
        spec = droplet_spec(node)
        if droplet is None:
            metadata = {"name": key.name, "labels": {MADE_LABEL: MADE_BY}}
            await self._cache.client.create(SYSTEM, DROPLETS, {"metadata": metadata, "spec": spec})
        elif any(droplet["spec"].get(field) != value for field, value in spec.items()):
            droplet["spec"] |= spec
            await self._cache.client.update(SYSTEM, DROPLETS, droplet)
        return DONE


def droplet_spec(node: Object) -> Object:
    """The fields of the droplet that follow from the node. Its agent sets the others: MAC and interface."""
    addresses = objects.get(node, "status", "addresses", default=[])
    internal = next((each["address"] for each in addresses if each.get("type") == "InternalIP"), "")
    spec: Object = {"status": str(ProvisioningState.PROVISIONED) if is_ready(node) else NOT_READY}
    return {**spec, "ip": internal} if internal else spec


def is_ready(node: Object) -> bool:
    if "deletionTimestamp" in node["metadata"]:
        return False
    conditions = objects.get(node, "status", "conditions", default=[])
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
