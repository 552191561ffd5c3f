"""Ring0's objects as this node watches them: what networks are made of, where nodes are, and its own endpoints."""

from collections.abc import Callable
from ipaddress import IPv4Address

from msgspec import Struct

from alcove.agent.network import ring0_objects
from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.api import objects
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import ListSelection
from alcove.client.keys import HOME
from alcove.client.mirror import Mirror
from alcove.client.planes import Planes
from alcove.client.resources import DROPLETS, VPC_ENDPOINTS
from alcove.network.endpoints import PodNic, by_owner, nic_of, vni_of
from alcove.network.fabric import Fabric
from alcove.network.owners import OwnerRef
from alcove.network.providers.base import Providers


class VpcDuty(Struct, frozen=True):
    """A VPC that this node bounces or divides for others."""

    vpc: str
    nets: tuple[str, ...] = ()
    """Subnets whose endpoints it has to know."""


class Ring0View:
    def __init__(self, planes: Planes, node: str, providers: Providers, changed: Callable[[], None]) -> None:
        self._node = node
        self._providers = providers
        self._changed = changed
        self._nodes: dict[str, IPv4Address] = {}
        self._backings: dict[tuple[str, int], NetworkBacking | None] = {}
        self._fabric = Fabric(planes, self._fabric_changed)
        self._droplets = planes.mirror(ListSelection(DROPLETS), tenant=SYSTEM, only=HOME)
        self._droplets.subscribe(self._droplet_changed)
        self._own = planes.mirror(
            ListSelection(VPC_ENDPOINTS, fields=f"spec.droplet={node}"),
            {"owner": by_owner},
            tenant=SYSTEM,
            only=HOME,
        )
        self._own.subscribe(lambda _change: changed())

    def _fabric_changed(self, change: ObjectChange) -> None:
        if (
            change.old is not None
            and change.kind is ChangeType.UPDATED
            and _told(change.old) == _told(change.obj)
        ):
            return  # Its status tells people how full it is.
        self._backings.clear()
        self._changed()

    def _droplet_changed(self, change: ObjectChange) -> None:
        """Most changes leave all addresses where they are."""
        name = change.key.name
        address = (
            ring0_objects.nodes_of([change.obj]).get(name) if change.kind is not ChangeType.DELETED else None
        )
        if self._nodes.get(name) == address:
            return
        # Another object: who has made something of the old one sees that it is not this one.
        self._nodes = {each: there for each, there in self._nodes.items() if each != name}
        if address is not None:
            self._nodes[name] = address
        self._backings.clear()
        self._changed()

    def is_synced(self) -> bool:
        return all(mirror.is_synced(HOME) for mirror in self._mirrors())

    async def synced(self) -> None:
        for mirror in self._mirrors():
            await mirror.synced()

    def _mirrors(self) -> tuple[Mirror, ...]:
        return (*self._fabric.mirrors, self._droplets, self._own)

    # Reading

    def nodes(self) -> dict[str, IPv4Address]:
        """The same object as long as no address changes."""
        return self._nodes

    def nics(self, owner_uid: str, pod: OwnerRef) -> list[PodNic]:
        """The pod's addresses on this node."""
        found = (nic_of(each) for each in self._own.find("owner", HOME, SYSTEM, owner_uid))
        return [nic for nic in found if nic is not None and nic.pod == pod]

    def present(self) -> dict[int, PodNic]:
        """A nic of each network that has a pod here, or is about to have one, by VNI."""
        found: dict[int, PodNic] = {}
        for endpoint in self._own.list(HOME, SYSTEM):
            nic = nic_of(endpoint)
            if nic is not None:
                found.setdefault(nic.vni, nic)
        return found

    def backing(self, vpc: str, vni: int) -> NetworkBacking | None:
        """What the network of that number is made of; None: it is not whole (any more)."""
        key = (vpc, vni)
        if key not in self._backings:
            made_of = self._providers.of_vpc(vpc).node_layout(self._fabric, vpc, vni)
            self._backings[key] = (
                ring0_objects.backing_of(made_of, self.nodes()) if made_of is not None else None
            )
        found = self._backings[key]
        return found if found is not None and found.vni == vni else None

    def duties(self) -> list[VpcDuty]:
        """What this node does for others' sake. Where networks have no bouncers, everybody in one knows all of it."""
        nets: dict[str, list[str]] = {}
        for bouncer in self._fabric.bouncers_on(self._node):
            nets.setdefault(bouncer["spec"]["vpc"], []).append(bouncer["spec"]["net"])
        for divider in self._fabric.dividers_on(self._node):
            nets.setdefault(divider["spec"]["vpc"], [])
        return [
            VpcDuty(vpc, tuple(sorted(found)))
            for vpc, found in sorted(nets.items())
            if self._providers.of_vpc(vpc).uses_bouncers
        ]

    def duty_backing(self, duty: VpcDuty) -> NetworkBacking | None:
        vpc = self._fabric.vpc(duty.vpc)
        return self.backing(duty.vpc, vni_of(vpc)) if vpc is not None else None


def _told(obj: Object) -> tuple[object, object]:
    """All that backings are made of."""
    return obj.get("spec"), objects.annotations(obj)
