"""The provider objects of a network as the data plane's values: droplet names become node addresses. Pure: no
I/O."""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, ip_address, ip_interface

from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import TenantId
from alcove.api.kinds.mizar import GATEWAY, SIMPLE
from alcove.api.kinds.ranges import gateway
from alcove.api.objects import Object
from alcove.dataplane.address import Address, Prefix
from alcove.dataplane.model import Interface, RemoteEndpoint, Subnet, Vpc
from alcove.network.endpoints import EndpointAllocation
from alcove.network.owners import TenantNetworkId
from alcove.network.providers.base import NetworkLayout

Nodes = Mapping[str, IPv4Address]
"""Addresses of droplets by name."""


class NetworkBacking(Struct, frozen=True):
    """The provider objects of a network: its VPC, subnets and gateways."""

    owner: TenantNetworkId
    vpc: Vpc
    subnets: tuple[Subnet, ...]
    gateways: tuple[Interface, ...]

    @property
    def vni(self) -> int:
        return self.vpc.vni

    @property
    def prefixes(self) -> tuple[Prefix, ...]:
        return self.vpc.prefixes

    def gateway(self, version: int) -> Address | None:
        """The first gateway address of that IP version, where the gateway's servers listen; None if there is
        none."""
        return next((each.ip for each in self.gateways if each.version == version), None)


def located(allocation: EndpointAllocation, nodes: Nodes) -> RemoteEndpoint | None:
    """The node of an address; None if the node is unknown, or the address is not on one node (a
    service's)."""
    node = nodes.get(allocation.droplet)
    if node is None or allocation.address is None or allocation.kind not in (SIMPLE, GATEWAY):
        return None
    return RemoteEndpoint(allocation.vni, allocation.address, node)


def nodes_of(droplets: Iterable[Object]) -> dict[str, IPv4Address]:
    """Addresses by name, of the droplets that have an IPv4 address."""
    nodes: dict[str, IPv4Address] = {}
    for droplet in droplets:
        address = ip_address(objects.get(droplet, "spec", "ip") or "::")
        if isinstance(address, IPv4Address):
            nodes[objects.name(droplet)] = address
    return nodes


def addresses_of(droplets: Iterable[str], nodes: Nodes) -> tuple[IPv4Address, ...]:
    """Addresses of the known droplets, each once, in the same order."""
    return tuple(dict.fromkeys(nodes[each] for each in droplets if each in nodes))


def droplets_of(layout: NetworkLayout) -> frozenset[str]:
    """The droplets whose addresses `backing_of` needs."""
    return frozenset((*layout.dividers, *(each for subnet in layout.subnets for each in subnet.bouncers)))


def backing_of(layout: NetworkLayout, nodes: Nodes) -> NetworkBacking:
    """The provider's layout of a network, with addresses instead of droplet names."""
    return NetworkBacking(
        layout.owner or TenantNetworkId(TenantId(""), ""),
        Vpc(layout.vni, (layout.network,), addresses_of(layout.dividers, nodes)),
        tuple(
            Subnet(layout.vni, each.network, addresses_of(each.bouncers, nodes)) for each in layout.subnets
        ),
        tuple(_gateway(each.network) for each in layout.subnets),
    )


def _gateway(prefix: Prefix) -> Interface:
    return ip_interface(f"{gateway(prefix)}/{prefix.prefixlen}")
