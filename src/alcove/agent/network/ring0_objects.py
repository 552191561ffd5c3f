"""What a network is made of, as the data plane knows it: addresses of nodes in the place of droplets' names. Pure."""

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
    """What a network is made of."""

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
        """Where its node's own servers are."""
        return next((one.ip for one in self.gateways if one.version == version), None)


def located(holding: EndpointAllocation, nodes: Nodes) -> RemoteEndpoint | None:
    """Where an address is; None: on no node that is known, or everywhere."""
    node = nodes.get(holding.droplet)
    if node is None or holding.address is None or holding.kind not in (SIMPLE, GATEWAY):
        return None
    return RemoteEndpoint(holding.vni, holding.address, node)


def nodes_of(droplets: Iterable[Object]) -> dict[str, IPv4Address]:
    found: dict[str, IPv4Address] = {}
    for droplet in droplets:
        address = ip_address(objects.get(droplet, "spec", "ip") or "::")
        if isinstance(address, IPv4Address):
            found[objects.name(droplet)] = address
    return found


def homes(droplets: Iterable[str], nodes: Nodes) -> tuple[IPv4Address, ...]:
    """Addresses of the droplets that are known, each once, in the same order."""
    return tuple(dict.fromkeys(nodes[each] for each in droplets if each in nodes))


def backing_of(found: NetworkLayout, nodes: Nodes) -> NetworkBacking:
    """A network as its provider tells it, with the droplets' addresses."""
    return NetworkBacking(
        found.owner or TenantNetworkId(TenantId(""), ""),
        Vpc(found.vni, (found.network,), homes(found.dividers, nodes)),
        tuple(Subnet(found.vni, each.network, homes(each.bouncers, nodes)) for each in found.subnets),
        tuple(_gateway(each.network) for each in found.subnets),
    )


def _gateway(prefix: Prefix) -> Interface:
    return ip_interface(f"{gateway(prefix)}/{prefix.prefixlen}")
