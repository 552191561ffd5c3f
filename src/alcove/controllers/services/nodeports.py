"""Services' node ports: one number space for all tenants, since all have the same nodes.

A port is an endpoint of type `door` in ring0; making it is taking the port. It goes with the service, or when the
service has no use for it any more.
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.kinds.core.services import types
from alcove.api.kinds.mizar import NODE_PORT
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import SERVICES
from alcove.controllers.controller import DONE, ControllerContext, Result
from alcove.controllers.services.claiming import RETRY_SECONDS, ServiceClaims
from alcove.network.owners import OwnerRef
from alcove.network.provider_networks import ProviderNetwork
from alcove.vpc.claims import claimed_port
from alcove.vpc.errors import VpcError
from alcove.vpc.node_ports import NodePortClaims, PortPurpose


class NodePortController(ServiceClaims):
    name = "node-port"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._doors = NodePortClaims(self._cache)
        self.on(self._services, _with_ports)
        self.on(self._cache.endpoints, lambda change: self._lost_by(change, NODE_PORT))

    async def reconcile(self, key: ObjectKey) -> Result:
        service = self._services.get(key)
        if service is None or "deletionTimestamp" in service["metadata"]:
            return DONE  # They go when it is gone (`network/orphans.py`).
        desired = [port for port in service["spec"].get("ports") or () if _is_wanted(service["spec"], port)]
        await self._release(service, desired)
        if not desired:
            return DONE
        backing = self._backing(key, service)
        if backing is None:
            return DONE  # The network tells when it is ready.
        try:
            await self._claim(key, service, desired, backing)
        except VpcError as error:
            self._warn(key, service, str(error))
            return Result(after_seconds=RETRY_SECONDS)
        return DONE

    async def _claim(
        self, key: ObjectKey, service: Object, desired: list[Object], backing: ProviderNetwork
    ) -> None:
        """Takes what the service has, draws what it has not, and writes that into the service."""
        drawn = False
        for port in desired:
            protocol = port.get("protocol") or "TCP"
            door = PortPurpose(
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

    async def _release(self, service: Object, desired: list[Object]) -> None:
        """What the service has no use for. A port that was drawn but not written yet is drawn again."""
        kept = {(port["nodePort"], port.get("protocol") or "TCP") for port in desired if port.get("nodePort")}
        if len(kept) < len(desired):
            return
        ports = {objects.name(each): each for each in self._claimed(service, NODE_PORT)}
        await self._give_back(
            each
            for name, each in ports.items()
            if (port := claimed_port(name)) is not None and port not in kept
        )


def _with_ports(change: ObjectChange) -> Iterable[ObjectKey]:
    """Services that have, want or had node ports: most never do."""
    old = change.old
    is_concerned = types.has_node_ports(change.obj["spec"]) or (
        old is not None and types.has_node_ports(old["spec"])
    )
    return (change.key,) if is_concerned and change.kind is not ChangeType.DELETED else ()


def _is_wanted(spec: Object, port: Object) -> bool:
    if not types.has_node_ports(spec):
        return False
    is_given = not types.is_balanced(spec) or spec.get("allocateLoadBalancerNodePorts", True)
    return bool(is_given or port.get("nodePort"))
