"""The node lifecycle controller: observes heartbeats of ring0's nodes, and sets their conditions and taints.

An outage of the API server does not make nodes count as lost: controllers that could not renew their leader
lease restart, which restarts every node's grace period.
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
    is_ring0 = True
    resource = NODES
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._nodes = self.nodes()
        self._zones = NodeZones()
        self._heartbeats: dict[str, float] = {}
        """The time of each node's last heartbeat, by the controller's clock."""
        # Subscribed without `on`: a renewed lease does not enqueue the node.
        self._leases = context.planes.mirror(ListSelection(LEASES, LEASE_NAMESPACE), tenant=SYSTEM, only=HOME)
        self._leases.subscribe(self._of_lease)
        self.on(self._nodes, self._of_node)

    def _of_lease(self, change: ObjectChange) -> None:
        if change.kind is ChangeType.DELETED:
            return
        if change.old is None or _renewal(change.old) != _renewal(change.obj):
            self._on_heartbeat(change.key.name)

    def _on_heartbeat(self, name: str) -> None:
        if ObjectKey(HOME, SYSTEM, "", name) in self._nodes:
            self._heartbeats[name] = self.clock()

    def _of_node(self, change: ObjectChange) -> Iterable[ObjectKey]:
        name, were_lost = change.key.name, self._zones.is_lost
        if change.kind is ChangeType.DELETED:
            self._zones.remove(name)
            self._heartbeats.pop(name, None)
        else:
            self._zones.put(change.obj)
            if _has_heartbeat(change):
                self._on_heartbeat(name)
            if change.old is not None and health.is_ready(change.old) and not health.is_ready(change.obj):
                message = f"Node {name} status is now: NodeNotReady"
                self.events.normal(change.key.plane, change.obj, "NodeNotReady", message)
            yield change.key
        if were_lost and not self._zones.is_lost:
            # All nodes were lost, so most likely the connection was: restart the grace period of each node.
            self._heartbeats = dict.fromkeys(self._heartbeats, self.clock())
        if were_lost != self._zones.is_lost:
            yield from self._nodes.keys(HOME, SYSTEM)

    async def reconcile(self, key: ObjectKey) -> Result:
        node = self._nodes.get(key)
        if node is None or "deletionTimestamp" in node["metadata"]:
            return DONE
        now = self.clock()
        node_health = health.evaluate(node, self._heartbeats.setdefault(key.name, now), now)
        if node_health.conditions is not None:
            if await self._is_renewed(key.name):
                return Result(after_seconds=health.grace_seconds(node))
            node = await self._set_conditions(node, node_health.conditions)
        return await self._taint(key, node, node_health.next_check_seconds)

    async def _is_renewed(self, name: str) -> bool:
        """Reads the lease from the server, because the mirror may lag behind."""
        try:
            lease = await self.context.planes.client(HOME).get(
                SYSTEM, LEASES, name, namespace=LEASE_NAMESPACE
            )
        except NotFound:
            return False
        mirrored = self._leases.get(ObjectKey(HOME, SYSTEM, LEASE_NAMESPACE, name))
        return mirrored is None or _renewal(mirrored) != _renewal(lease)

    async def _set_conditions(self, node: Object, conditions: list[Object]) -> Object:
        node.setdefault("status", {})["conditions"] = conditions
        return await self.context.planes.client(HOME).update(SYSTEM, NODES, node, subresource="status")

    async def _taint(self, key: ObjectKey, node: Object, retry_seconds: float | None) -> Result:
        now = self.clock()
        evicting_key = "" if self._zones.is_lost else taints.eviction_taint(node)
        if evicting_key and not taints.has_eviction_taint(node):
            waits = self._zones.start_eviction(node, now)
            if waits:
                evicting_key, retry_seconds = "", min(waits, retry_seconds or waits)
        desired = taints.desired_taints(node, evicting_key, now)
        if desired != get(node, "spec", "taints", default=[]):
            patch = {
                "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
                "spec": {"taints": desired},
            }
            await self.client(key).patch(SYSTEM, NODES, key.name, patch)
        return Result(after_seconds=retry_seconds)


def _renewal(lease: Object) -> object:
    return get(lease, "spec", "renewTime")


def _has_heartbeat(change: ObjectChange) -> bool:
    """Whether the node has written its status."""
    heartbeat = _heartbeat(change.obj)
    return heartbeat is not None and (change.old is None or heartbeat != _heartbeat(change.old))


def _heartbeat(node: Object) -> object:
    """The node's last heartbeat in its status. None if the status was not written by the node."""
    for each in get(node, "status", "conditions", default=()):
        if each.get("type") == "Ready" and each.get("status") != "Unknown":
            return each.get("lastHeartbeatTime"), each.get("status")
    return None
