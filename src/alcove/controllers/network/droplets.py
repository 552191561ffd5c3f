"""Nodes and their droplets: every node is a machine that endpoints can be on, while it is ready."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.changes import Change, Kind
from alcove.client.keys import ObjectKey
from alcove.client.resources import DROPLETS, NODES
from alcove.controllers.controller import DONE, Controller, Result, Setup
from alcove.network.owners import MADE_BY, MADE_LABEL, is_made
from alcove.vpc.states import State
from alcove.vpc.world import World, key_of

NOT_READY = "NotReady"


class DropletController(Controller):
    name = "droplet"
    resource = NODES

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._world = world = World(setup.planes, setup.clock)
        self._nodes = self.nodes()
        self.reads.append(world.droplets)
        self.on(self._nodes, self._of_node)
        self.on(world.droplets)

    def _of_node(self, change: Change) -> Iterable[ObjectKey]:
        """A node's heartbeats tell nothing new."""
        old = change.old
        if change.kind is Kind.UPDATED and old is not None and told_of(old) == told_of(change.obj):
            return ()
        return (change.key,)

    async def reconcile(self, key: ObjectKey) -> Result:
        node, droplet = self._nodes.get(key), self._world.droplets.get(key_of(key.name))
        if node is None:
            if droplet is not None and is_made(droplet) and await self._world.is_gone(NODES, key.name):
                await self._world.delete(DROPLETS, key.name, droplet["metadata"]["uid"])
            return DONE
        spec = told_of(node)
        if droplet is None:
            metadata = {"name": key.name, "labels": {MADE_LABEL: MADE_BY}}
            await self._world.client.create(SYSTEM, DROPLETS, {"metadata": metadata, "spec": spec})
        elif any(droplet["spec"].get(field) != value for field, value in spec.items()):
            droplet["spec"] |= spec
            await self._world.client.update(SYSTEM, DROPLETS, droplet)
        return DONE


def told_of(node: Object) -> Object:
    """What the node says of its droplet. Its agent may know more: the hardware address, the interface."""
    addresses = objects.get(node, "status", "addresses", default=[])
    internal = next((each["address"] for each in addresses if each.get("type") == "InternalIP"), "")
    spec: Object = {"status": str(State.PROVISIONED) if is_ready(node) else NOT_READY}
    return {**spec, "ip": internal} if internal else spec


def is_ready(node: Object) -> bool:
    if "deletionTimestamp" in node["metadata"]:
        return False
    conditions = objects.get(node, "status", "conditions", default=[])
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
