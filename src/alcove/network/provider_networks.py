"""What stands behind each network: its VPC, number and subnets, found by the marks on ring0's objects."""

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
from alcove.vpc.vpc_cache import VpcCache, spec_of


class ProviderNetwork(Struct, frozen=True):
    vpc: str
    vni: int
    network: Network
    """The range that all its pods' addresses are of."""
    subnets: Mapping[str, AddressPool]
    """Those that pods can get addresses from now, in the order they are tried."""

    def services(self, cidr: Network) -> AddressPool:
        """Services' addresses are beside the subnets, each network's its own."""
        return AddressPool(vpc=self.vpc, network=cidr, scope=self.vni, vni=self.vni)


class ProviderNetworks:
    """Finds what is marked with a network. What stands behind it, its provider says (`network/providers`)."""

    def __init__(self, cache: VpcCache) -> None:
        self.cache = cache
        for mirror in (cache.vpcs, cache.subnets, cache.dividers):
            mirror.add_index("network", by_network)
            mirror.add_index("tenant", by_tenant)

    def vpcs(self, owner: TenantNetworkId) -> list[Object]:
        return self.cache.vpcs.find("network", HOME, SYSTEM, str(owner))

    def subnets(self, owner: TenantNetworkId) -> list[Object]:
        """Those made for the network."""
        return self.cache.subnets.find("network", HOME, SYSTEM, str(owner))

    def dividers(self, owner: TenantNetworkId) -> list[Object]:
        """Those that hold a number for the network alone."""
        return self.cache.dividers.find("network", HOME, SYSTEM, str(owner))

    def of_tenant(self, tenant: TenantId) -> set[TenantNetworkId]:
        """The tenant's networks that anything is marked with."""
        found = [
            *self.cache.vpcs.find("tenant", HOME, SYSTEM, tenant),
            *self.cache.dividers.find("tenant", HOME, SYSTEM, tenant),
        ]
        return {owner for each in found if (owner := owner_of(each)) is not None}

    async def release_addresses(self, holders: Iterable[Object]) -> str:
        """Delete the addresses that the network's own services and gateways have, of the numbers of its VPCs or
        dividers. Says how many others still have one, in words; empty: nobody."""
        for vni in {read_number(each["spec"].get("vni")) for each in holders} - {None}:
            if left := await self._release_addresses(str(vni)):
                return f"{left} addresses are still in use"
        return ""

    async def _release_addresses(self, scope: str) -> int:
        left = 0
        for endpoint in self.cache.endpoints.find("scope", HOME, SYSTEM, scope):
            if spec_of(endpoint, "type") in (SCALED, GATEWAY):
                await self.cache.delete(VPC_ENDPOINTS, objects.name(endpoint), endpoint["metadata"]["uid"])
            else:
                left += 1
        return left
