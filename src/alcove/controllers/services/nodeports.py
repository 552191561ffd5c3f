"""Node ports of services: one range for all tenants, because all share the same nodes.

A node port is an endpoint of type `door` in ring0; creating it allocates the port. Ring0's API server creates it with
the service (`apiserver/admission/services`), and this controller completes it with the network's VPC and VNI, which
nodes find it by. For the services of dedicated planes this controller also allocates and releases the ports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from alcove.api import node_ports, objects
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.services import types
from alcove.api.kinds.mizar import NODE_PORT
from alcove.api.node_ports import PORTS, PROTOCOLS, claimed_port
from alcove.api.objects import Object
from alcove.api.pool_shares import PoolUse
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import SERVICES, VPC_ENDPOINTS
from alcove.controllers.controller import ControllerContext
from alcove.controllers.services.claiming import ServiceClaims, owner_name
from alcove.controllers.services.tenant_shares import check_limit, check_share
from alcove.controllers.tenants.controller import tenant_key
from alcove.network.provider_networks import ProviderNetwork
from alcove.vpc.node_ports import NodePortClaims, PortPurpose
from alcove.vpc.vpc_cache import spec_of


class NodePortController(ServiceClaims):
    name = "node-port"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, types.has_node_ports, NODE_PORT)
        self._node_ports = NodePortClaims(self._cache)
        self.on(self._cache.endpoints, self._of_claim)

    def _of_claim(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """The service of a claim that was deleted, or is to be completed: it may be seen before its claim is."""
        if change.kind is ChangeType.DELETED or not spec_of(change.obj, "vpc"):
            return self._service_of(change.obj, NODE_PORT)
        return ()

    async def _allocate(self, key: ObjectKey, service: Object) -> None:
        if "deletionTimestamp" in service["metadata"]:
            return  # The ports are released when it is deleted.
        if key.plane == HOME:
            await self._complete(key, service)
            return
        spec = service["spec"]
        desired = [port for port in spec.get("ports") or () if node_ports.needs_port(spec, port)]
        await self._release(service, desired)
        backing = self._backing(key, service) if desired else None
        if backing is not None:
            async with self._one_at_a_time(key.tenant):
                self._check_share(key.tenant, service, desired)
                await self._claim(key, service, desired, backing)

    # Ring0's own plane

    async def _complete(self, key: ObjectKey, service: Object) -> None:
        backing = self._backing(key, service)
        if backing is None:
            return  # The service is enqueued when the network is provisioned.
        for endpoint in self._claimed(service, NODE_PORT):
            completed = {**endpoint["spec"], "vpc": backing.vpc, "vni": backing.vni}
            if claimed_port(objects.name(endpoint)) is not None and completed != endpoint["spec"]:
                await self._cache.client.update(SYSTEM, VPC_ENDPOINTS, {**endpoint, "spec": completed})

    # Dedicated planes

    def _check_share(self, tenant: TenantId, service: Object, desired: list[Object]) -> None:
        """Raises ShareExceeded before anything is claimed."""
        held = Counter(
            port[1]
            for each in self._claimed(service, NODE_PORT)
            if (port := claimed_port(objects.name(each))) is not None
        )
        missing = Counter(port.get("protocol") or "TCP" for port in desired) - held
        used = {protocol: self._held_count(protocol, tenant) for protocol in PROTOCOLS}
        limit = node_ports.limit_of(self._tenancy.tenants.get(tenant_key(tenant)))
        check_limit(node_ports.RESOURCE, missing.total(), sum(used.values()), limit)
        for protocol, count in missing.items():
            free = len(PORTS) - self._held_count(protocol)
            check_share(PoolUse(node_ports.RESOURCE, used[protocol], free), count)

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
                what=owner_name(key),
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
