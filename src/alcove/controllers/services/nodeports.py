"""Services' node ports: one number space for all tenants, since all have the same nodes.

A port is an endpoint of type `door` in ring0; making it is taking the port. It goes with the service, or when the
service has no use for it any more.
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.kinds.core.networks import network_of
from alcove.api.kinds.core.services import types
from alcove.api.objects import Object
from alcove.client.changes import Change, Kind
from alcove.client.keys import ObjectKey
from alcove.client.resources import NETWORKS, SERVICES, VPC_ENDPOINTS
from alcove.controllers.controller import DONE, Controller, Result, Setup
from alcove.controllers.network.backings import Backing, Backings
from alcove.controllers.network.networks import JOINED, turned_ready
from alcove.controllers.network.owners import NetworkId, OwnerRef
from alcove.controllers.network.tenancy import Tenancy
from alcove.vpc.addressing import DOOR
from alcove.vpc.claims import claimed_port
from alcove.vpc.doors import Door, Doors
from alcove.vpc.errors import VpcError
from alcove.vpc.world import World, spec_of

FAILED = "FailedProvision"
RETRY_SECONDS = 30.0


class NodePortController(Controller):
    name = "node-port"
    resource = SERVICES

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._world = world = World(setup.planes, setup.clock)
        self._networks = self.mirror(NETWORKS)
        self._services = self.mirror(SERVICES, {"joined": JOINED})
        self._tenancy = Tenancy(self)
        self._backings = Backings(world)
        self._doors = Doors(world)
        self.on(self._services, _with_ports)
        self.on(self._networks, self._of_network)
        self.on(world.endpoints, self._of_door)

    async def fresh(self, key: ObjectKey) -> None:
        await super().fresh(key)
        await self._world.caught_up(self._world.endpoints)

    def _of_network(self, change: Change) -> Iterable[ObjectKey]:
        key = change.key
        return (
            self._services.find_keys("joined", key.plane, key.tenant, key.name)
            if turned_ready(change)
            else ()
        )

    def _of_door(self, change: Change) -> Iterable[ObjectKey]:
        """A port that somebody gave away."""
        if change.kind is not Kind.DELETED or spec_of(change.obj, "type") != DOOR:
            return ()
        ref = OwnerRef.parse(spec_of(change.obj, "pod"))
        plane = self._tenancy.plane_of(ref.tenant) if ref else None
        return (ObjectKey(plane, ref.tenant, ref.namespace, ref.name),) if ref and plane else ()

    async def reconcile(self, key: ObjectKey) -> Result:
        service = self._services.get(key)
        if service is None or "deletionTimestamp" in service["metadata"]:
            return DONE  # They go when it is gone (`network/orphans.py`).
        wanted = [port for port in service["spec"].get("ports") or () if _is_wanted(service["spec"], port)]
        await self._release(service, wanted)
        if not wanted:
            return DONE
        network = self._networks.get(key.of(network_of(service), ""))
        owner = NetworkId(key.tenant, network_of(service))
        backing = self._backings.of(owner, network) if network is not None else None
        if backing is None:
            return DONE  # The network tells when it is ready.
        try:
            await self._claim(key, service, wanted, backing)
        except VpcError as error:
            whole = {**service, "apiVersion": SERVICES.api_version, "kind": SERVICES.kind}
            self.events.warning(key.plane, whole, FAILED, str(error))
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
        for endpoint in self._world.endpoints_of(service["metadata"]["uid"]):
            claim = claimed_port(objects.name(endpoint))
            if spec_of(endpoint, "type") == DOOR and claim is not None and claim not in kept:
                await self._world.delete(VPC_ENDPOINTS, objects.name(endpoint), endpoint["metadata"]["uid"])


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
