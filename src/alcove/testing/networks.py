"""Networks in a lab, applied to its nodes as the agent does: each node gets only what it needs."""

from collections.abc import Sequence
from ipaddress import IPv4Address, ip_network

from msgspec import Struct

from alcove.dataplane.address import Prefix
from alcove.dataplane.model import DataplaneNetwork, DataplaneService, Gateway, RemoteEndpoint, Subnet, Vpc
from alcove.testing.nodes import Lab, NamespacePod

SERVICE_PREFIX = ip_network("172.20.0.0/16")
SERVICE_PREFIX6 = ip_network("fd20::/64")


class LabNetwork(Struct):
    """A VPC with subnets; bouncers and dividers are given by node number."""

    vni: int
    prefixes: tuple[str, ...] = ("10.0.0.0/16", "fd00::/48")
    subnets: tuple[str, ...] = ("10.0.1.0/24", "10.0.2.0/24", "fd00:0:0:1::/64", "fd00:0:0:2::/64")
    bouncers: dict[str, tuple[int, ...]] = {}
    dividers: tuple[int, ...] = ()
    pods: list[NamespacePod] = []
    services: tuple[DataplaneService, ...] = ()
    gateways: dict[int, Gateway] = {}
    """By node number."""


def _addresses(lab: Lab, numbers: Sequence[int]) -> tuple[IPv4Address, ...]:
    return tuple(node.address for node in lab.nodes if node.number in numbers)


def subnets_of(lab: Lab, network: LabNetwork) -> tuple[Subnet, ...]:
    return tuple(
        Subnet(network.vni, ip_network(one), _addresses(lab, network.bouncers.get(one, ())))
        for one in network.subnets
    )


def endpoints_of(network: LabNetwork) -> tuple[RemoteEndpoint, ...]:
    return tuple(
        RemoteEndpoint(network.vni, one.ip, pod.node.address)
        for pod in network.pods
        for one in pod.veth.addresses
    )


def apply_networks(lab: Lab, *networks: LabNetwork) -> None:
    """Applies the networks to every node of the lab."""
    prefixes: tuple[Prefix, ...] = (SERVICE_PREFIX, SERVICE_PREFIX6)
    for node in lab.nodes:
        node.apply(
            networks=tuple(DataplaneNetwork(one.vni, service_prefixes=prefixes) for one in networks),
            vpcs=tuple(
                Vpc(one.vni, tuple(map(ip_network, one.prefixes)), _addresses(lab, one.dividers))
                for one in networks
            ),
            subnets=tuple(subnet for one in networks for subnet in subnets_of(lab, one)),
            endpoints=tuple(endpoint for one in networks for endpoint in endpoints_of(one)),
            services=tuple(service for one in networks for service in one.services),
            gateways=tuple(one.gateways[node.number] for one in networks if node.number in one.gateways),
        )
