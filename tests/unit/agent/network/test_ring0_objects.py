"""Networks for the data plane, with the addresses of nodes."""

from ipaddress import IPv4Address, ip_address, ip_interface, ip_network

import pytest

from alcove.agent.network import ring0_objects
from alcove.api.ids import TenantId
from alcove.dataplane.model import RemoteEndpoint, Subnet, Vpc
from alcove.network.endpoints import EndpointAllocation
from alcove.network.owners import TenantNetworkId
from alcove.network.providers.base import NetworkLayout, SubnetLayout

NODES = {"a": IPv4Address("192.0.2.1"), "b": IPv4Address("192.0.2.2")}
ADDRESS = ip_address("10.0.0.5")
OWNER = TenantNetworkId(TenantId("acme"), "blue")


@pytest.mark.parametrize(
    ("kind", "droplet", "found"),
    [
        ("simple", "a", RemoteEndpoint(7, ADDRESS, NODES["a"])),
        ("gateway", "b", RemoteEndpoint(7, ADDRESS, NODES["b"])),
        ("simple", "gone", None),
        ("simple", "", None),
        ("scaled", "a", None),
    ],
)
def test_where_an_address_is(kind: str, droplet: str, found: RemoteEndpoint | None) -> None:
    assert (
        ring0_objects.located(EndpointAllocation("7-10.0.0.5", kind, "u1", None, 7, ADDRESS, droplet), NODES)
        == found
    )


def test_a_port_of_the_nodes_is_nowhere() -> None:
    assert (
        ring0_objects.located(EndpointAllocation("port-80-tcp", "door", "u1", None, 7, None, "a"), NODES)
        is None
    )


def test_nodes_are_droplets_with_an_ipv4_address() -> None:
    droplets = [
        {"metadata": {"name": name}, "spec": {"ip": ip}}
        for name, ip in (("a", "192.0.2.1"), ("six", "fd00::1"), ("none", ""))
    ]
    assert ring0_objects.nodes_of(droplets) == {"a": NODES["a"]}


def test_a_network_with_the_addresses_of_who_knows_it() -> None:
    subnets = (
        SubnetLayout(ip_network("10.0.1.0/24"), ("a", "b", "a")),
        SubnetLayout(ip_network("10.0.2.0/24"), ("gone",)),
    )
    backing = ring0_objects.backing_of(
        NetworkLayout(
            owner=OWNER, vni=7, network=ip_network("10.0.0.0/16"), subnets=subnets, dividers=("b",)
        ),
        NODES,
    )
    assert backing.owner == OWNER
    assert backing.vpc == Vpc(7, (ip_network("10.0.0.0/16"),), (NODES["b"],))
    assert backing.subnets == (
        Subnet(7, ip_network("10.0.1.0/24"), (NODES["a"], NODES["b"])),
        Subnet(7, ip_network("10.0.2.0/24")),
    )
    assert backing.gateways == (ip_interface("10.0.1.1/24"), ip_interface("10.0.2.1/24"))
    assert (backing.gateway(4), backing.gateway(6)) == (ip_address("10.0.1.1"), None)


def test_a_vpc_without_owner_is_no_tenants_network() -> None:
    alone = NetworkLayout(owner=None, vni=7, network=ip_network("10.0.0.0/16"), subnets=())
    assert ring0_objects.backing_of(alone, NODES).owner == TenantNetworkId(TenantId(""), "")
