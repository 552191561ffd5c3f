"""Node ports of services: one range for all tenants, because all share the same nodes.

A node port is an endpoint of type `door` in ring0; creating it allocates the port. It is released with the
service, or when the service no longer needs it.
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
        self._node_ports = NodePortClaims(self._cache)
        self.on(self._services, _with_ports)
        self.on(self._cache.endpoints, lambda change: self._service_of_deleted(change, NODE_PORT))

    async def reconcile(self, key: ObjectKey) -> Result:
        service = self._services.get(key)
        if service is None or "deletionTimestamp" in service["metadata"]:
            return DONE  # The ports are released when it is deleted (`network/orphans.py`).
        desired = [
            port for port in service["spec"].get("ports") or () if _needs_node_port(service["spec"], port)
        ]
        await self._release(service, desired)
        if not desired:
            return DONE
        backing = self._backing(key, service)
        if backing is None:
            return DONE  # The service is enqueued when the network is ready.
        try:
            await self._claim(key, service, desired, backing)
        except VpcError as error:
            self._warn(key, service, str(error))
            return Result(after_seconds=RETRY_SECONDS)
        return DONE

    async def _claim(
        self, key: ObjectKey, service: Object, desired: list[Object], backing: ProviderNetwork
    ) -> None:
        """Claims the node ports that the service specifies, allocates the others, and writes those into
        it."""
        is_changed = False
        for port in desired:
            protocol = port.get("protocol") or "TCP"
            purpose = PortPurpose(
                owner_uid=service["metadata"]["uid"],
                what=str(OwnerRef(key.tenant, key.namespace, key.name)),
                vpc=backing.vpc,
                vni=backing.vni,
                protocol=protocol,
            )
            if port.get("nodePort"):
                await self._node_ports.take(port["nodePort"], purpose)
            else:
                port["nodePort"] = await self._node_ports.draw(f"{port['port']}/{protocol}", purpose)
                is_changed = True
        if is_changed:
            await self.client(key).update(key.tenant, SERVICES, service)

    async def _release(self, service: Object, desired: list[Object]) -> None:
        """Releases ports that the service no longer needs. Nothing is released while a port is not yet
        written to the service: the claim finds it again."""
        specified = {
            (port["nodePort"], port.get("protocol") or "TCP") for port in desired if port.get("nodePort")
        }
        if len(specified) < len(desired):
            return
        ports = {objects.name(each): each for each in self._claimed(service, NODE_PORT)}
        await self._release_endpoints(
            each
            for name, each in ports.items()
            if (port := claimed_port(name)) is not None and port not in specified
        )


def _with_ports(change: ObjectChange) -> Iterable[ObjectKey]:
    """Services that have or had node ports; most never do."""
    old = change.old
    is_relevant = types.has_node_ports(change.obj["spec"]) or (
        old is not None and types.has_node_ports(old["spec"])
    )
    return (change.key,) if is_relevant and change.kind is not ChangeType.DELETED else ()


def _needs_node_port(spec: Object, port: Object) -> bool:
    if not types.has_node_ports(spec):
        return False
    is_allocated = not types.is_balanced(spec) or spec.get("allocateLoadBalancerNodePorts", True)
    return bool(is_allocated or port.get("nodePort"))
