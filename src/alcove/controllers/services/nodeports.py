"""Services' node ports: one number space for all tenants, since all have the same nodes.

A port is an endpoint of type `door` in ring0; making it is taking the port. It goes with the service, or when the
service has no use for it any more.
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.kinds.core.services import types
from alcove.api.kinds.mizar import DOOR
from alcove.api.objects import Object
from alcove.client.changes import Change, Kind
from alcove.client.keys import ObjectKey
from alcove.client.resources import SERVICES
from alcove.controllers.controller import DONE, Result, Setup
from alcove.controllers.services.claiming import RETRY_SECONDS, ServiceClaims
from alcove.network.backings import Backing
from alcove.network.owners import OwnerRef
from alcove.vpc.claims import claimed_port
from alcove.vpc.doors import Door, Doors
from alcove.vpc.errors import VpcError


class NodePortController(ServiceClaims):
    name = "node-port"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._doors = Doors(self._world)
        self.on(self._services, _with_ports)
        self.on(self._world.endpoints, lambda change: self._lost_by(change, DOOR))

    async def reconcile(self, key: ObjectKey) -> Result:
        service = self._services.get(key)
        if service is None or "deletionTimestamp" in service["metadata"]:
            return DONE  # They go when it is gone (`network/orphans.py`).
        wanted = [port for port in service["spec"].get("ports") or () if _is_wanted(service["spec"], port)]
        await self._release(service, wanted)
        if not wanted:
            return DONE
        backing = self._backing(key, service)
        if backing is None:
            return DONE  # The network tells when it is ready.
        try:
            await self._claim(key, service, wanted, backing)
        except VpcError as error:
            self._warn(key, service, str(error))
            return Result(after_seconds=RETRY_SECONDS)
        return DONE

    async def _claim(self, key: ObjectKey, service: Object, wanted: list[Object], backing: Backing) -> None:
        """Takes what the service has, draws what it has not, and writes that into the service."""
        drawn = False
        for port in wanted:
            protocol = port.get("protocol") or "TCP"
            door = Door(
                owner_uid=service["metadata"]["uid"],
                what=str(OwnerRef(key.tenant, key.namespace, key.name)),
                vpc=backing.vpc,
                vni=backing.vni,
                protocol=protocol,
            )
            if port.get("nodePort"):
                await self._doors.take(port["nodePort"], door)
            else:
                port["nodePort"] = await self._doors.draw(f"{port['port']}/{protocol}", door)
                drawn = True
        if drawn:
            await self.client(key).update(key.tenant, SERVICES, service)

    async def _release(self, service: Object, wanted: list[Object]) -> None:
        """What the service has no use for. A port that was drawn but not written yet is drawn again."""
        kept = {(port["nodePort"], port.get("protocol") or "TCP") for port in wanted if port.get("nodePort")}
        if len(kept) < len(wanted):
            return
        ports = {objects.name(each): each for each in self._claimed(service, DOOR)}
        await self._give_back(
            each
            for name, each in ports.items()
            if (port := claimed_port(name)) is not None and port not in kept
        )


def _with_ports(change: Change) -> Iterable[ObjectKey]:
    """Services that have, want or had node ports: most never do."""
    old = change.old
    is_concerned = types.has_node_ports(change.obj["spec"]) or (
        old is not None and types.has_node_ports(old["spec"])
    )
    return (change.key,) if is_concerned and change.kind is not Kind.DELETED else ()


def _is_wanted(spec: Object, port: Object) -> bool:
    if not types.has_node_ports(spec):
        return False
    is_given = not types.is_balanced(spec) or spec.get("allocateLoadBalancerNodePorts", True)
    return bool(is_given or port.get("nodePort"))
