"""Ring0's objects as this node watches them: what networks are made of, where nodes are, and its own endpoints."""

from collections.abc import Callable, Iterable
from ipaddress import IPv4Address

from msgspec import Struct

from alcove.agent.network import fabric
from alcove.agent.network.fabric import Backing, Nic
from alcove.api import objects
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.changes import Change, Index, Kind
from alcove.client.client import Selection
from alcove.client.keys import HOME
from alcove.client.mirror import Mirror
from alcove.client.planes import Planes
from alcove.client.resources import BOUNCERS, DIVIDERS, DROPLETS, SUBNETS, VPC_ENDPOINTS, VPCS
from alcove.network.owners import OwnerRef
from alcove.vpc.claims import divider_name
from alcove.vpc.defaults import DEFAULT_SUBNET, DEFAULT_VPC
from alcove.vpc.world import OWNER_LABEL, by_spec, key_of, spec_of


class Duty(Struct, frozen=True):
    """A VPC that this node bounces or divides for others."""

    vpc: str
    nets: tuple[str, ...] = ()
    """Subnets whose endpoints it has to know."""


class Ring0:
    def __init__(self, planes: Planes, node: str, changed: Callable[[], None]) -> None:
        self._planes = planes
        self._node = node
        self._changed = changed
        self._nodes: dict[str, IPv4Address] = {}
        self._backings: dict[tuple[str, int], Backing | None] = {}
        by_droplet, by_vpc = by_spec("droplet"), by_spec("vpc")
        self._vpcs = self._mirror(Selection(VPCS))
        self._subnets = self._mirror(Selection(SUBNETS), vpc=by_vpc)
        self._bouncers = self._mirror(Selection(BOUNCERS), vpc=by_vpc, droplet=by_droplet)
        self._dividers = self._mirror(Selection(DIVIDERS), vpc=by_vpc, droplet=by_droplet)
        self._droplets = planes.mirror(Selection(DROPLETS), tenant=SYSTEM, only=HOME)
        self._droplets.subscribe(self._droplet_changed)
        self._own = planes.mirror(
            Selection(VPC_ENDPOINTS, fields=f"spec.droplet={node}"),
            {"owner": _owner},
            tenant=SYSTEM,
            only=HOME,
        )
        self._own.subscribe(lambda _change: changed())

    def _mirror(self, selection: Selection, **indexes: Index) -> Mirror:
        mirror = self._planes.mirror(selection, indexes, tenant=SYSTEM, only=HOME)
        mirror.subscribe(self._fabric_changed)
        return mirror

    def _fabric_changed(self, change: Change) -> None:
        if change.old is not None and change.kind is Kind.UPDATED and _told(change.old) == _told(change.obj):
            return  # Its status tells people how full it is.
        self._backings.clear()
        self._changed()

    def _droplet_changed(self, change: Change) -> None:
        """Most changes leave all addresses where they are."""
        name = change.key.name
        address = fabric.nodes_of([change.obj]).get(name) if change.kind is not Kind.DELETED else None
        if self._nodes.get(name) == address:
            return
        # Another object: who has made something of the old one sees that it is not this one.
        self._nodes = {each: there for each, there in self._nodes.items() if each != name}
        if address is not None:
            self._nodes[name] = address
        self._backings.clear()
        self._changed()

    def is_synced(self) -> bool:
        mirrors = (self._vpcs, self._subnets, self._bouncers, self._dividers, self._droplets, self._own)
        return all(mirror.is_synced(HOME) for mirror in mirrors)

    async def synced(self) -> None:
        for mirror in (self._vpcs, self._subnets, self._bouncers, self._dividers, self._droplets, self._own):
            await mirror.synced()

    # Reading

    def nodes(self) -> dict[str, IPv4Address]:
        """The same object as long as no address changes."""
        return self._nodes

    def nics(self, owner_uid: str, pod: OwnerRef) -> list[Nic]:
        """The pod's addresses on this node."""
        found = (fabric.nic_of(each) for each in self._own.find("owner", HOME, SYSTEM, owner_uid))
        return [nic for nic in found if nic is not None and nic.pod == pod]

    def present(self) -> dict[int, Nic]:
        """A nic of each network that has a pod here, or is about to have one, by VNI."""
        found: dict[int, Nic] = {}
        for endpoint in self._own.list(HOME, SYSTEM):
            nic = fabric.nic_of(endpoint)
            if nic is not None:
                found.setdefault(nic.vni, nic)
        return found

    def backing(self, vpc: str, vni: int) -> Backing | None:
        """What the network of that number is made of; None: it is not whole (any more)."""
        key = (vpc, vni)
        if key not in self._backings:
            self._backings[key] = self._flat(vni) if vpc == DEFAULT_VPC else self._of_vpc(vpc)
        found = self._backings[key]
        return found if found is not None and found.vni == vni else None

    def _flat(self, vni: int) -> Backing | None:
        divider = self._dividers.get(key_of(divider_name(vni, 0)))
        subnet = self._subnets.get(key_of(DEFAULT_SUBNET))
        return fabric.backing_of_flat(divider, subnet) if divider is not None and subnet is not None else None

    def _of_vpc(self, name: str) -> Backing | None:
        vpc = self._vpcs.get(key_of(name))
        if vpc is None:
            return None
        subnets = self._subnets.find("vpc", HOME, SYSTEM, name)
        bouncers = self._bouncers.find("vpc", HOME, SYSTEM, name)
        dividers = self._dividers.find("vpc", HOME, SYSTEM, name)
        return fabric.backing_of_vpc(vpc, subnets, bouncers, dividers, self.nodes())

    def duties(self) -> list[Duty]:
        """Flat networks have no bouncers: everybody in one knows all of it."""
        nets: dict[str, list[str]] = {}
        for bouncer in self._bouncers.find("droplet", HOME, SYSTEM, self._node):
            nets.setdefault(spec_of(bouncer, "vpc"), []).append(spec_of(bouncer, "net"))
        for divider in self._dividers.find("droplet", HOME, SYSTEM, self._node):
            nets.setdefault(spec_of(divider, "vpc"), [])
        nets.pop(DEFAULT_VPC, None)
        return [Duty(vpc, tuple(sorted(found))) for vpc, found in sorted(nets.items())]

    def duty_backing(self, duty: Duty) -> Backing | None:
        vpc = self._vpcs.get(key_of(duty.vpc))
        return self.backing(duty.vpc, fabric.vni_of(vpc)) if vpc is not None else None


def _owner(endpoint: Object) -> Iterable[str]:
    owner = objects.labels(endpoint).get(OWNER_LABEL)
    return (owner,) if owner else ()


def _told(obj: Object) -> tuple[object, object]:
    """All that backings are made of."""
    return obj.get("spec"), objects.annotations(obj)
