"""The objects of ring0 that this node watches: VPCs and subnets of networks, droplets, tenants, and the
node's endpoints."""

from collections.abc import Callable
from ipaddress import IPv4Address
from typing import TypeVar

from msgspec import Struct

from alcove.agent.network import ring0_objects
from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.api import destinations, objects
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.tenants import allowed_cidrs
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import ListSelection
from alcove.client.keys import HOME, ObjectKey
from alcove.client.mirror import Mirror
from alcove.client.planes import Planes
from alcove.client.resources import DIVIDERS, DROPLETS, TENANTS, VPC_ENDPOINTS, Resource
from alcove.dataplane.address import Prefix
from alcove.network.endpoints import PodNic, by_owner, nic_of, vni_of
from alcove.network.fabric import Fabric
from alcove.network.owners import OwnerRef
from alcove.network.providers.base import Providers

Value = TypeVar("Value")


class VpcDuty(Struct, frozen=True):
    """A VPC for which this node is a bouncer or divider."""

    vpc: str
    nets: tuple[str, ...] = ()
    """Subnets whose endpoints the node has to know."""


class _KnownBacking(Struct, frozen=True):
    backing: NetworkBacking | None = None
    """None if the network's objects are not complete."""
    droplets: frozenset[str] = frozenset()
    """The droplets whose addresses are in it, or will be as soon as they are known."""


class Ring0View:
    def __init__(self, planes: Planes, node: str, providers: Providers, changed: Callable[[], None]) -> None:
        self._node = node
        self._providers = providers
        self._changed = changed
        self._addresses: dict[str, IPv4Address] = {}
        """Of nodes, by name."""
        self._nodes: dict[str, IPv4Address] | None = None
        """A copy of `_addresses` for users; None if an address has changed since it was made."""
        self._backings: dict[tuple[str, int], _KnownBacking] = {}
        """Those that this node asked for: changes of others do not concern it."""
        self._vnis: dict[str, set[int]] = {}
        """Those of `_backings`, by VPC."""
        self._droplet_users: dict[str, set[tuple[str, int]]] = {}
        """Those of `_backings` that have a droplet, by its name."""
        self._awaited_vpcs: set[str] = set()
        """VPCs that this node has duties for, and that did not exist when they were asked for."""
        self._fabric = Fabric(planes, self._fabric_changed)
        self._droplets = planes.mirror(ListSelection(DROPLETS), tenant=SYSTEM, only=HOME)
        self._droplets.subscribe(self._droplet_changed)
        self._tenants = planes.mirror(ListSelection(TENANTS), tenant=SYSTEM, only=HOME)
        self._tenants.subscribe(self._tenant_changed)
        self._local_endpoints = planes.mirror(
            ListSelection(VPC_ENDPOINTS, fields=f"spec.droplet={node}"),
            {"owner": by_owner},
            tenant=SYSTEM,
            only=HOME,
        )
        self._local_endpoints.subscribe(lambda _change: changed())

    def _fabric_changed(self, resource: Resource, change: ObjectChange) -> None:
        if (
            change.old is not None
            and change.kind is ChangeType.UPDATED
            and _backing_fields(change.old) == _backing_fields(change.obj)
        ):
            return  # Only the status changed, which backings do not depend on.
        states = [each for each in (change.obj, change.old) if each is not None]
        vpcs = {objects.get(each, "spec", "vpc") or objects.name(each) for each in states}
        # Each flat network has a divider in the default VPC.
        vnis = {vni_of(each) for each in states} if resource == DIVIDERS else None
        concerned = [
            (vpc, vni) for vpc in vpcs for vni in list(self._vnis.get(vpc, ())) if vnis is None or vni in vnis
        ]
        for vpc, vni in concerned:
            self._forget_backing(vpc, vni)
        has_duty = any(objects.get(each, "spec", "droplet") == self._node for each in states)
        if concerned or has_duty or vpcs & self._awaited_vpcs:
            self._changed()

    def _droplet_changed(self, change: ObjectChange) -> None:
        """Most changes of droplets do not change an address."""
        name = change.key.name
        address = (
            ring0_objects.nodes_of([change.obj]).get(name) if change.kind is not ChangeType.DELETED else None
        )
        if self._addresses.get(name) == address:
            return
        if address is None:
            del self._addresses[name]
        else:
            self._addresses[name] = address
        self._nodes = None
        for vpc, vni in list(self._droplet_users.get(name, ())):
            self._forget_backing(vpc, vni)
        self._changed()

    def _tenant_changed(self, change: ObjectChange) -> None:
        """Most changes of tenants do not concern networks."""
        before = allowed_cidrs(change.old) if change.old is not None else []
        if change.kind is ChangeType.DELETED or allowed_cidrs(change.obj) != before:
            self._changed()

    def is_synced(self) -> bool:
        return all(mirror.is_synced(HOME) for mirror in self._mirrors())

    async def synced(self) -> None:
        for mirror in self._mirrors():
            await mirror.synced()

    def _mirrors(self) -> tuple[Mirror, ...]:
        return (*self._fabric.mirrors, self._droplets, self._tenants, self._local_endpoints)

    # Reading

    def nodes(self) -> dict[str, IPv4Address]:
        """Addresses of nodes by name. The same object as long as no address changes."""
        # A new dict after a change: users compare by identity to see that something changed.
        if self._nodes is None:
            self._nodes = dict(self._addresses)
        return self._nodes

    def allowed_destinations(self, tenant: TenantId) -> tuple[Prefix, ...]:
        """The networks that are not public, and that ring0 allows the tenant's pods to reach."""
        obj = self._tenants.get(ObjectKey(HOME, SYSTEM, "", tenant))
        return destinations.networks(allowed_cidrs(obj)) if obj is not None else ()

    def nics(self, owner_uid: str, pod: OwnerRef) -> list[PodNic]:
        """The pod's NICs on this node."""
        nics = (nic_of(each) for each in self._local_endpoints.find("owner", HOME, SYSTEM, owner_uid))
        return [nic for nic in nics if nic is not None and nic.pod == pod]

    def present(self) -> dict[int, PodNic]:
        """One NIC of each network that has a pod on this node, or is about to have one, by VNI."""
        nics: dict[int, PodNic] = {}
        for endpoint in self._local_endpoints.list(HOME, SYSTEM):
            nic = nic_of(endpoint)
            if nic is not None:
                nics.setdefault(nic.vni, nic)
        return nics

    def backing(self, vpc: str, vni: int) -> NetworkBacking | None:
        """The provider objects of the network with that VNI; None if they are not complete."""
        key = (vpc, vni)
        if key not in self._backings:
            layout = self._providers.of_vpc(vpc).node_layout(self._fabric, vpc, vni)
            known = _KnownBacking()
            if layout is not None:
                known = _KnownBacking(
                    ring0_objects.backing_of(layout, self.nodes()), ring0_objects.droplets_of(layout)
                )
            self._backings[key] = known
            self._vnis.setdefault(vpc, set()).add(vni)
            for droplet in known.droplets:
                self._droplet_users.setdefault(droplet, set()).add(key)
        backing = self._backings[key].backing
        return backing if backing is not None and backing.vni == vni else None

    def _forget_backing(self, vpc: str, vni: int) -> None:
        known = self._backings.pop((vpc, vni))
        _discard(self._vnis, vpc, vni)
        for droplet in known.droplets:
            _discard(self._droplet_users, droplet, (vpc, vni))

    def duties(self) -> list[VpcDuty]:
        """The VPCs that this node bounces or divides. Networks of providers without bouncers have no duties:
        every node of such a network knows all its endpoints."""
        nets: dict[str, list[str]] = {}
        for bouncer in self._fabric.bouncers_on(self._node):
            nets.setdefault(bouncer["spec"]["vpc"], []).append(bouncer["spec"]["net"])
        for divider in self._fabric.dividers_on(self._node):
            nets.setdefault(divider["spec"]["vpc"], [])
        return [
            VpcDuty(vpc, tuple(sorted(subnets)))
            for vpc, subnets in sorted(nets.items())
            if self._providers.of_vpc(vpc).uses_bouncers
        ]

    def duty_backing(self, duty: VpcDuty) -> NetworkBacking | None:
        vpc = self._fabric.vpc(duty.vpc)
        if vpc is None:
            self._awaited_vpcs.add(duty.vpc)
        else:
            self._awaited_vpcs.discard(duty.vpc)
        return self.backing(duty.vpc, vni_of(vpc)) if vpc is not None else None


def _discard(sets: dict[str, set[Value]], key: str, value: Value) -> None:
    sets[key].discard(value)
    if not sets[key]:
        del sets[key]


def _backing_fields(obj: Object) -> tuple[object, object]:
    """The fields of an object that backings depend on."""
    return obj.get("spec"), objects.annotations(obj)
