"""What stands behind each network: its VPC, number and subnets, found by the marks on ring0's objects."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from alcove.api import objects
from alcove.api.addresses import Network
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.ranges import read_number
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.network.owners import NetworkId, by_network, by_tenant, owner_of
from alcove.vpc import ranges
from alcove.vpc.addressing import Place, place_in
from alcove.vpc.defaults import DEFAULT_SUBNET, DEFAULT_VPC
from alcove.vpc.states import is_going, is_provisioned
from alcove.vpc.world import World

FLAT = "flat"


class Backing(Struct, frozen=True):
    vpc: str
    vni: int
    network: Network
    """The range that all its pods' addresses are of."""
    subnets: Mapping[str, Place]
    """Those that pods can get addresses from now, in the order they are tried."""

    def services(self, cidr: Network) -> Place:
        """Services' addresses are beside the subnets, each network's its own."""
        return Place(vpc=self.vpc, network=cidr, scope=self.vni, vni=self.vni)


class Backings:
    def __init__(self, world: World) -> None:
        self._world = world
        for mirror in (world.vpcs, world.subnets, world.dividers):
            mirror.add_index("network", by_network)
            mirror.add_index("tenant", by_tenant)

    def vpcs(self, owner: NetworkId) -> list[Object]:
        return self._world.vpcs.find("network", HOME, SYSTEM, str(owner))

    def subnets(self, owner: NetworkId) -> list[Object]:
        """Those made for the network."""
        return self._world.subnets.find("network", HOME, SYSTEM, str(owner))

    def dividers(self, owner: NetworkId) -> list[Object]:
        """That which holds a flat network's number."""
        return self._world.dividers.find("network", HOME, SYSTEM, str(owner))

    def of_tenant(self, tenant: TenantId) -> set[NetworkId]:
        """The tenant's networks that anything is marked with."""
        found = [
            *self._world.vpcs.find("tenant", HOME, SYSTEM, tenant),
            *self._world.dividers.find("tenant", HOME, SYSTEM, tenant),
        ]
        return {owner for each in found if (owner := owner_of(each)) is not None}

    def of(self, owner: NetworkId, network: Object) -> Backing | None:
        """None: there is nothing behind it yet that pods could be attached to."""
        if network["spec"]["type"] == FLAT:
            return self._flat(owner)
        vpc = next((each for each in self.vpcs(owner) if is_provisioned(each)), None)
        if vpc is None:
            return None
        whole, vni = ranges.range_of(vpc), read_number(vpc["spec"].get("vni"))
        usable = self._usable(objects.name(vpc), objects.get(network, "spec", "subnets", default=[]))
        if whole is None or vni is None or not usable:
            return None
        return Backing(objects.name(vpc), vni, whole, usable)

    def _usable(self, vpc: str, named: list[str]) -> dict[str, Place]:
        there = {
            objects.name(each): place_in(each)
            for each in self._world.subnets_of(vpc)
            if is_provisioned(each) and not is_going(each)
        }
        return {name: there[name] for name in named if name in there} if named else there

    def _flat(self, owner: NetworkId) -> Backing | None:
        divider = next(iter(self.dividers(owner)), None)
        subnet = self._world.subnet(DEFAULT_SUBNET)
        vni = read_number(divider["spec"].get("vni")) if divider else None
        if vni is None or subnet is None or not is_provisioned(subnet):
            return None
        place = place_in(subnet, vni)
        return Backing(DEFAULT_VPC, vni, place.network, {place.net: place})
