"""Flat networks: each has a VNI of its own, and all share the addresses of the default VPC.

The VNI is held by a divider that is annotated with the network. There are no bouncers: every node that has
the network watches all its endpoints, and no other network's.
"""

from __future__ import annotations

from typing import ClassVar

from alcove.api import objects
from alcove.api.kinds.ranges import read_number
from alcove.api.objects import Object
from alcove.client.resources import DIVIDERS
from alcove.network import nics, owners
from alcove.network.endpoints import vni_of
from alcove.network.fabric import Fabric
from alcove.network.nics import RequestedNic
from alcove.network.owners import TenantNetworkId
from alcove.network.provider_networks import ProviderNetwork, ProviderNetworks
from alcove.network.providers.base import NetworkLayout, NetworkProvider, Provisioning, SubnetLayout
from alcove.network.service_ranges import service_ranges
from alcove.vpc import ranges
from alcove.vpc.addressing import pool_in
from alcove.vpc.allocator import AddressRequest
from alcove.vpc.claims import divider_name
from alcove.vpc.defaults import DEFAULT_RANGE, DEFAULT_SUBNET, DEFAULT_VPC
from alcove.vpc.states import ProvisioningState, is_provisioned
from alcove.vpc.vpc_cache import spec_of


class FlatNetworks(NetworkProvider):
    types: ClassVar[tuple[str, ...]] = ("flat",)
    ready_message: ClassVar[str] = "DNS service ready; network ready"
    heeds_nics: ClassVar[bool] = False
    uses_bouncers: ClassVar[bool] = False

    def has_vpc(self, name: str) -> bool:
        return name == DEFAULT_VPC

    async def provision(self, provisioning: Provisioning, owner: TenantNetworkId, network: Object) -> None:
        service_ranges(network, [DEFAULT_RANGE])
        if _dividers(provisioning.backings, owner):
            return
        spec = {"vpc": DEFAULT_VPC, "status": str(ProvisioningState.PROVISIONED)}
        divider = owners.mark_made({"metadata": {}, "spec": spec}, owner)
        await provisioning.numbers.draw(network["metadata"]["uid"], divider)
        cache = provisioning.backings.cache
        await cache.caught_up(cache.dividers)

    def backing(
        self, backings: ProviderNetworks, owner: TenantNetworkId, network: Object
    ) -> ProviderNetwork | None:
        divider = next(iter(_dividers(backings, owner)), None)
        subnet = backings.cache.subnet(DEFAULT_SUBNET)
        vni = read_number(divider["spec"].get("vni")) if divider else None
        if vni is None or subnet is None or not is_provisioned(subnet):
            return None
        pool = pool_in(subnet, vni)
        return ProviderNetwork(DEFAULT_VPC, vni, pool.network, {pool.net: pool})

    async def release(self, backings: ProviderNetworks, owner: TenantNetworkId) -> str:
        dividers = _dividers(backings, owner)
        if message := await backings.release_addresses(dividers):
            return message
        for divider in dividers:
            await backings.cache.delete(DIVIDERS, objects.name(divider), divider["metadata"]["uid"])
        return ""

    def wanted_nics(
        self, backings: ProviderNetworks, pod: Object, network: Object, backing: ProviderNetwork
    ) -> list[RequestedNic]:
        """Every pod gets one address; `spec.nics` is ignored."""
        return [RequestedNic(nics.interface(0), AddressRequest(tuple(backing.subnets.values())))]

    def node_layout(self, fabric: Fabric, vpc: str, vni: int) -> NetworkLayout | None:
        divider, subnet = fabric.divider(divider_name(vni, 0)), fabric.subnet(DEFAULT_SUBNET)
        return node_layout(divider, subnet) if divider is not None and subnet is not None else None


def _dividers(backings: ProviderNetworks, owner: TenantNetworkId) -> list[Object]:
    """The divider that holds the network's VNI; other providers may annotate dividers of other VPCs."""
    return [each for each in backings.dividers(owner) if spec_of(each, "vpc") == DEFAULT_VPC]


def node_layout(divider: Object, subnet: Object) -> NetworkLayout | None:
    """The layout of the network that owns the divider; None if no network owns it or the network is not
    complete."""
    owner, vni, network = owners.owner_of(divider), vni_of(divider), ranges.range_of(subnet)
    if owner is None or not vni or network is None or not is_provisioned(subnet):
        return None
    return NetworkLayout(owner=owner, vni=vni, network=network, subnets=(SubnetLayout(network),))
