"""A gateway's addresses and routes are what the network wants now, not what it once wanted."""

import json
import random
import subprocess
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_interface, ip_network

import pytest

from alcove.dataplane.address import Prefix
from alcove.dataplane.model import DataplaneNetwork, Gateway, Vpc
from alcove.dataplane.namespaces import path_of
from alcove.testing.nodes import Lab, LabNode

VNI = 8101
SERVICES = ip_network("172.20.0.0/16")


@pytest.fixture(scope="module")
def node() -> Iterator[LabNode]:
    with Lab(1) as lab:
        yield lab.nodes[0]


def gateway(
    *addresses: str, node_address: str | None = None, node_address6: str | None = None, vni: int = VNI
) -> Gateway:
    return Gateway(
        vni,
        tuple(ip_interface(one) for one in addresses),
        IPv4Address(node_address) if node_address else None,
        node_address6=IPv6Address(node_address6) if node_address6 else None,
    )


def apply(node: LabNode, *gateways: Gateway, services: tuple[Prefix, ...] = (SERVICES,)) -> None:
    node.apply(
        networks=tuple(DataplaneNetwork(one.vni, service_prefixes=services) for one in gateways),
        vpcs=tuple(Vpc(one.vni, (ip_network("10.0.0.0/16"), ip_network("fd00::/48"))) for one in gateways),
        gateways=gateways,
    )


def shown(namespace: str, *arguments: str) -> list[dict[str, object]]:
    command = ["nsenter", f"--net={path_of(namespace)}", "ip", "-j", *arguments]
    found: list[dict[str, object]] = json.loads(subprocess.check_output(command))
    return found


def addresses_in(namespace: str, link: str) -> set[str]:
    [found] = shown(namespace, "addr", "show", "dev", link)
    infos = found["addr_info"]
    assert isinstance(infos, list)
    return {f"{one['local']}/{one['prefixlen']}" for one in infos if one["scope"] == "global"}


def static_routes_in(namespace: str, link: str) -> set[object]:
    found = [one for family in ("-4", "-6") for one in shown(namespace, family, "route", "show", "dev", link)]
    return {one["dst"] for one in found if one.get("protocol") == "static"}


def test_the_address_for_node_ports_goes_with_the_last_service_that_needed_it(node: LabNode) -> None:
    """It stayed on the link: the pod that got it later failed its probes on this node for good."""
    namespace = node.plane.gateways.namespace_name(VNI)
    apply(node, gateway("10.0.1.1/24", node_address="10.0.1.240", node_address6="fd00:0:0:1::240"))
    assert addresses_in(namespace, "net") == {"10.0.1.1/24", "10.0.1.240/32", "fd00:0:0:1::240/128"}
    apply(node, gateway("10.0.1.1/24"))
    assert addresses_in(namespace, "net") == {"10.0.1.1/24"}


def test_routes_to_addresses_of_balancers_go_with_them(node: LabNode) -> None:
    namespace, balancer = node.plane.gateways.namespace_name(VNI), ip_network("198.51.100.7/32")
    apply(node, gateway("10.0.1.1/24"), services=(SERVICES, balancer))
    assert "198.51.100.7" in static_routes_in(namespace, "net")
    apply(node, gateway("10.0.1.1/24"))
    assert static_routes_in(namespace, "net") == {"10.0.0.0/16", "fd00::/48", "172.20.0.0/16"}


def test_foreign_addresses_are_removed_by_a_resync(node: LabNode) -> None:
    namespace = node.plane.gateways.namespace_name(VNI)
    apply(node, gateway("10.0.1.1/24"))
    enter = ["nsenter", f"--net={path_of(namespace)}", "ip"]
    subprocess.check_call([*enter, "addr", "add", "10.0.1.77/32", "dev", "net"])
    subprocess.check_call([*enter, "route", "add", "192.0.2.0/24", "dev", "net", "proto", "static"])
    node.plane.gateways.invalidate()
    apply(node, gateway("10.0.1.1/24"))
    assert addresses_in(namespace, "net") == {"10.0.1.1/24"}
    assert "192.0.2.0/24" not in static_routes_in(namespace, "net")


def test_rules_of_gateways_that_went_while_no_agent_ran_go_at_its_start(node: LabNode) -> None:
    """The exit went on translating their node ports."""
    exit_namespace = f"{node.plane.gateways.prefix}exit"
    apply(node, gateway("10.0.1.1/24"))
    rule = "add rule ip alcove prerouting tcp dport 30999 dnat to 169.254.64.1:80"
    enter = ["nsenter", f"--net={path_of(exit_namespace)}", "nft"]
    subprocess.check_call([*enter, rule])
    node.plane.close()
    node.start()
    apply(node)
    assert "30999" not in subprocess.check_output([*enter, "list", "ruleset"], text=True)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_after_any_changes_every_namespace_has_the_desired_addresses(node: LabNode, seed: int) -> None:
    chance = random.Random(seed)
    pools = ("10.0.1.1/24", "10.0.2.1/24", "10.0.1.2/24", "fd00:0:0:1::1/64", "fd00:0:0:2::1/64")
    extras = tuple(ip_network(f"198.51.100.{number}/32") for number in range(4))
    for _ in range(12):
        present = [VNI + number for number in range(3) if chance.random() < 0.7]
        services = (SERVICES, *chance.sample(extras, chance.randrange(4)))
        gateways = [
            gateway(
                *chance.sample(pools, chance.randrange(1, 4)),
                node_address=chance.choice((None, "10.0.1.240", "10.0.2.241")),
                node_address6=chance.choice((None, "fd00:0:0:1::240")),
                vni=vni,
            )
            for vni in present
        ]
        apply(node, *gateways, services=services)
        for one in gateways:
            namespace = node.plane.gateways.namespace_name(one.vni)
            own = {f"{one.node_address}/32"} if one.node_address else set()
            own |= {f"{one.node_address6}/128"} if one.node_address6 else set()
            assert addresses_in(namespace, "net") == {str(each) for each in one.addresses} | own
            wanted = {"10.0.0.0/16", "fd00::/48", "172.20.0.0/16"}
            wanted |= {str(each.network_address) for each in services[1:]}
            assert static_routes_in(namespace, "net") == wanted
            exit_side = addresses_in(f"{node.plane.gateways.prefix}exit", f"g{one.vni:x}")
            assert len([each for each in exit_side if "." in each]) == 1
