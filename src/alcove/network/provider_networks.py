"""The provider's objects of each network: its VPC, VNI and subnets, found by the annotations of ring0's
objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from alcove.api import objects
from alcove.api.addresses import Network
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.mizar import GATEWAY, SCALED
from alcove.api.kinds.ranges import read_number
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.client.resources import VPC_ENDPOINTS
from alcove.network.owners import TenantNetworkId, by_network, by_tenant, owner_of
from alcove.vpc.addressing import AddressPool
from alcove.vpc.vpc_cache import VpcCache, by_spec, spec_of


class ProviderNetwork(Struct, frozen=True):
    vpc: str
    vni: int
    network: Network
    """The range that contains all its pods' addresses."""
    subnets: Mapping[str, AddressPool]
    """The subnets that pods can get addresses from now, in the order they are tried."""

    def services(self, cidr: Network) -> AddressPool:
        """The pool of the network's service addresses, which are outside its subnets."""
        return AddressPool(vpc=self.vpc, network=cidr, scope=self.vni, vni=self.vni)


class ProviderNetworks:
    """Finds objects by the network that they belong to. Which of them make up a network is decided by its
    provider (`network/providers`)."""

    def __init__(self, cache: VpcCache) -> None:
        self.cache = cache
        for mirror in (cache.vpcs, cache.subnets, cache.dividers):
            mirror.add_index("network", by_network)
            mirror.add_index("tenant", by_tenant)
        cache.endpoints.add_index("vni", by_spec("vni"))

    def vpcs(self, owner: TenantNetworkId) -> list[Object]:
        return self.cache.vpcs.find("network", HOME, SYSTEM, str(owner))

    def subnets(self, owner: TenantNetworkId) -> list[Object]:
        """The subnets that were created for the network."""
        return self.cache.subnets.find("network", HOME, SYSTEM, str(owner))

    def dividers(self, owner: TenantNetworkId) -> list[Object]:
        """The dividers that hold a VNI for this network only."""
        return self.cache.dividers.find("network", HOME, SYSTEM, str(owner))

    def of_tenant(self, tenant: TenantId) -> set[TenantNetworkId]:
        """The tenant's networks that own a VPC or divider."""
        owned = [
            *self.cache.vpcs.find("tenant", HOME, SYSTEM, tenant),
            *self.cache.dividers.find("tenant", HOME, SYSTEM, tenant),
        ]
        return {owner for each in owned if (owner := owner_of(each)) is not None}

    async def release_addresses(self, holders: Iterable[Object]) -> str:
        """Delete the endpoints of the network's services and gateways on the VNIs of the `holders`, which are
        its VPCs or dividers. Returns a message if other endpoints remain, else the empty string."""
        for vni in {read_number(each["spec"].get("vni")) for each in holders} - {None}:
            if remaining := await self._release_addresses(str(vni)):
                return f"{remaining} addresses are still in use"
        return ""

    async def _release_addresses(self, vni: str) -> int:
        # Addresses of pods in flat networks have another scope than the VNI that they are on.
        found = [
            endpoint
            for index in ("scope", "vni")
            for endpoint in self.cache.endpoints.find(index, HOME, SYSTEM, vni)
        ]
        remaining = 0
        for endpoint in {objects.name(each): each for each in found}.values():
            if spec_of(endpoint, "type") in (SCALED, GATEWAY):
                await self.cache.delete(VPC_ENDPOINTS, objects.name(endpoint), endpoint["metadata"]["uid"])
            else:
                remaining += 1
        return remaining
