"""Watches over ring0's nodes: their leases and conditions, and the taints that follow from them.

After an outage of the API server itself no node is lost: controllers that could not renew their own lease
begin anew, and with them every node's time of grace.
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.errors import NotFound
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object, get
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import ListSelection
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import LEASES, NODES
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.nodes import health, taints
from alcove.controllers.nodes.zones import NodeZones

LEASE_NAMESPACE = "kube-node-lease"


class NodeLifecycle(Controller):
    name = "node"
    resource = NODES
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._nodes = self.nodes()
        self._fleet = NodeZones()
        self._heard: dict[str, float] = {}
        """When each node was last heard of, by our clock."""
        # Just noted, not read: a lease that is renewed is no reason to look at the node.
        self._leases = context.planes.mirror(ListSelection(LEASES, LEASE_NAMESPACE), tenant=SYSTEM, only=HOME)
        self._leases.subscribe(self._renewed)
        self.on(self._nodes, self._changed)

    def _renewed(self, change: ObjectChange) -> None:
        if change.kind is ChangeType.DELETED:
            return
        if change.old is None or _renewal(change.old) != _renewal(change.obj):
            self._hear(change.key.name)

    def _hear(self, name: str) -> None:
        if ObjectKey(HOME, SYSTEM, "", name) in self._nodes:
            self._heard[name] = self.clock()

    def _changed(self, change: ObjectChange) -> Iterable[ObjectKey]:
        name, were_lost = change.key.name, self._fleet.is_lost
        if change.kind is ChangeType.DELETED:
            self._fleet.remove(name)
            self._heard.pop(name, None)
        else:
            self._fleet.put(change.obj)
            if _spoke(change):
                self._hear(name)
            if change.old is not None and health.is_ready(change.old) and not health.is_ready(change.obj):
                message = f"Node {name} status is now: NodeNotReady"
                self.events.normal(change.key.plane, change.obj, "NodeNotReady", message)
            yield change.key
        if were_lost and not self._fleet.is_lost:
            # It was we who heard nothing. The others get as much time as this one had.
            self._heard = dict.fromkeys(self._heard, self.clock())
        if were_lost != self._fleet.is_lost:
            yield from self._nodes.keys(HOME, SYSTEM)

    async def reconcile(self, key: ObjectKey) -> Result:
        node = self._nodes.get(key)
        if node is None or "deletionTimestamp" in node["metadata"]:
            return DONE
        now = self.clock()
        judged = health.judge(node, self._heard.setdefault(key.name, now), now)
        if judged.conditions is not None:
            if await self._is_renewed(key.name):
                return Result(after_seconds=health.grace_seconds(node))
            node = await self._silence(node, judged.conditions)
        return await self._taint(key, node, judged.look_again_seconds)

    async def _is_renewed(self, name: str) -> bool:
        """Asks the server, for our watch may lag behind it."""
        try:
            lease = await self.context.planes.client(HOME).get(
                SYSTEM, LEASES, name, namespace=LEASE_NAMESPACE
            )
        except NotFound:
            return False
        known = self._leases.get(ObjectKey(HOME, SYSTEM, LEASE_NAMESPACE, name))
        return known is None or _renewal(known) != _renewal(lease)

    async def _silence(self, node: Object, conditions: list[Object]) -> Object:
        node.setdefault("status", {})["conditions"] = conditions
        return await self.context.planes.client(HOME).update(SYSTEM, NODES, node, subresource="status")

    async def _taint(self, key: ObjectKey, node: Object, look_again: float | None) -> Result:
        now = self.clock()
        evicts = "" if self._fleet.is_lost else taints.evicting(node)
        if evicts and not taints.is_evicting(node):
            waits = self._fleet.give_up(node, now)
            if waits:
                evicts, look_again = "", min(waits, look_again or waits)
        desired = taints.desired_taints(node, evicts, now)
        if desired != get(node, "spec", "taints", default=[]):
            patch = {
                "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
                "spec": {"taints": desired},
            }
            await self.client(key).patch(SYSTEM, NODES, key.name, patch)
        return Result(after_seconds=look_again)


def _renewal(lease: Object) -> object:
    return get(lease, "spec", "renewTime")


def _spoke(change: ObjectChange) -> bool:
    """The node itself wrote its status."""
    beat = _beat(change.obj)
    return beat is not None and (change.old is None or beat != _beat(change.old))


def _beat(node: Object) -> object:
    """None: what stands there is not what the node said."""
    for each in get(node, "status", "conditions", default=()):
        if each.get("type") == "Ready" and each.get("status") != "Unknown":
            return each.get("lastHeartbeatTime"), each.get("status")
    return None
