"""What controllers have in common that claim something in ring0 for a service: an address of its network, one of the
world's, a port of the nodes. What is claimed is an endpoint that names the service; the network gives it a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from alcove.api import objects
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object
from alcove.client.changes import Change, Index, Kind
from alcove.client.keys import ObjectKey
from alcove.client.resources import NETWORKS, SERVICES, VPC_ENDPOINTS
from alcove.controllers.controller import Controller, Setup
from alcove.controllers.network.networks import JOINED, turned_ready
from alcove.controllers.network.tenancy import Tenancy
from alcove.network.backings import Backing, Backings
from alcove.network.owners import NetworkId, OwnerRef
from alcove.vpc.world import World, spec_of

FAILED = "FailedProvision"
RETRY_SECONDS = 30.0
"""What could not be had is tried again after this, and whenever the network changes."""


class ServiceClaims(Controller):
    resource = SERVICES

    def __init__(self, setup: Setup, indexes: Mapping[str, Index] | None = None) -> None:
        super().__init__(setup)
        self._world = World(setup.planes, setup.clock)
        self._networks = self.mirror(NETWORKS)
        self._services = self.mirror(SERVICES, {"joined": JOINED, **(indexes or {})})
        self._tenancy = Tenancy(self)
        self._backings = Backings(self._world)
        self.on(self._networks, self._of_network)

    async def fresh(self, key: ObjectKey) -> None:
        await super().fresh(key)
        await self._world.caught_up(self._world.endpoints, self._world.vpcs, self._world.dividers)

    def _of_network(self, change: Change) -> Iterable[ObjectKey]:
        key = change.key
        return (
            self._services.find_keys("joined", key.plane, key.tenant, key.name)
            if turned_ready(change)
            else ()
        )

    def _lost_by(self, change: Change, kind: str) -> Iterable[ObjectKey]:
        """The service whose claim of this kind somebody took away."""
        if change.kind is not Kind.DELETED or spec_of(change.obj, "type") != kind:
            return ()
        ref = OwnerRef.parse(spec_of(change.obj, "pod"))
        plane = self._tenancy.plane_of(ref.tenant) if ref else None
        return (ObjectKey(plane, ref.tenant, ref.namespace, ref.name),) if ref and plane else ()

    def _claimed(self, service: Object, kind: str) -> list[Object]:
        found = self._world.endpoints_of(service["metadata"]["uid"])
        return [each for each in found if spec_of(each, "type") == kind]

    def _backing(self, key: ObjectKey, service: Object) -> Backing | None:
        """None: the network tells when it has one."""
        name = network_of(service)
        network = self._networks.get(key.of(name, ""))
        return (
            self.setup.options.providers.backing(self._backings, NetworkId(key.tenant, name), network)
            if network is not None
            else None
        )

    async def _give_back(self, endpoints: Iterable[Object]) -> None:
        for each in endpoints:
            await self._world.delete(VPC_ENDPOINTS, objects.name(each), each["metadata"]["uid"])

    def _warn(self, key: ObjectKey, service: Object, why: str) -> None:
        whole = {**service, "apiVersion": SERVICES.api_version, "kind": SERVICES.kind}
        self.events.warning(key.plane, whole, FAILED, why)
