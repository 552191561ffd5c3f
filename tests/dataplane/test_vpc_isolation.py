"""Two VPCs with the same CIDR and the same pod addresses on three nodes: inside a VPC everything talks,
across VPCs nothing does, in all pairs."""

from collections.abc import Iterator
from itertools import permutations

import pytest

from alcove.dataplane.drops import DropReason
from alcove.testing.networks import LabNetwork, apply_networks
from alcove.testing.nodes import Lab, NamespacePod
from alcove.testing.probes import IMPATIENT, ping, tcp_server, tcp_talks, udp_socket, udp_talks

RED, BLUE = 1001, 1002
PLACES = ((0, 1, 11), (0, 2, 12), (1, 1, 13), (1, 2, 14), (2, 1, 15), (2, 2, 16))
"""Node, subnet, host number: the same in both VPCs."""


@pytest.fixture(scope="module")
def networks() -> Iterator[tuple[Lab, LabNetwork, LabNetwork]]:
    with Lab(3) as lab:
        red, blue = LabNetwork(RED, pods=[]), LabNetwork(BLUE, pods=[])
        for network in (red, blue):
            for node, subnet, host in PLACES:
                addresses = (f"10.0.{subnet}.{host}/24", f"fd00:0:0:{subnet}::{host}/64")
                network.pods.append(lab.nodes[node].add_pod(f"{network.vni}-{host}", network.vni, *addresses))
        apply_networks(lab, red, blue)
        yield lab, red, blue


def pairs(network: LabNetwork) -> Iterator[tuple[NamespacePod, NamespacePod]]:
    return permutations(network.pods, 2)


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("which", [0, 1])
def test_everything_talks_inside_a_vpc(
    networks: tuple[Lab, LabNetwork, LabNetwork], which: int, family: int
) -> None:
    _, red, blue = networks
    network = blue if which else red
    for client, server in pairs(network):
        target = server.address if family == 4 else server.address6
        with tcp_server(server.namespace, target, 80) as tcp, udp_socket(server.namespace, target, 53) as udp:
            assert tcp_talks(client.namespace, target, 80, tcp), f"TCP {client.name} to {server.name}"
            assert udp_talks(client.namespace, target, 53, udp), f"UDP {client.name} to {server.name}"
        assert ping(client.namespace, target), f"ping {client.name} to {server.name}"


@pytest.mark.parametrize("family", [4, 6])
def test_nothing_reaches_the_other_vpcs_pod_of_the_same_address(
    networks: tuple[Lab, LabNetwork, LabNetwork], family: int
) -> None:
    """Red's client calls the address; blue's pod of that address listens, red's own does not answer UDP."""
    _, red, blue = networks
    for client, twin in ((one, two) for one in red.pods for two in blue.pods):
        target = twin.address if family == 4 else twin.address6
        if target in (client.address, client.address6):
            continue
        with udp_socket(twin.namespace, target, 5353) as udp:
            assert not udp_talks(client.namespace, target, 5353, udp, timeout=0.02)
            with tcp_server(twin.namespace, target, 8080) as tcp:
                assert not tcp_talks(client.namespace, target, 8080, tcp, timeout=0.05)


def test_an_address_that_only_the_other_vpc_has_is_not_reachable(
    networks: tuple[Lab, LabNetwork, LabNetwork],
) -> None:
    lab, red, _ = networks
    alien = lab.nodes[1].add_pod("alien", BLUE, "10.0.1.99/24")
    networks[2].pods.append(alien)
    apply_networks(lab, red, networks[2])
    before = lab.nodes[0].dropped(DropReason.NO_ENDPOINT)
    assert not ping(red.pods[0].namespace, alien.address, timeout=IMPATIENT)
    assert lab.nodes[0].dropped(DropReason.NO_ENDPOINT) == before + 1
    assert ping(networks[2].pods[0].namespace, alien.address)


def test_large_packets_fit_the_tunnel(networks: tuple[Lab, LabNetwork, LabNetwork]) -> None:
    """The pod's MTU leaves room for the tunnel's header; what is larger is fragmented by the pod itself."""
    _, red, _ = networks
    near, far = red.pods[0], red.pods[2]
    assert ping(near.namespace, far.address, size=1472)
    assert ping(near.namespace, far.address, size=4000)
    assert ping(near.namespace, far.address6, size=1452)
    assert ping(near.namespace, far.address6, size=4000)


def test_the_nodes_themselves_are_out_of_reach(networks: tuple[Lab, LabNetwork, LabNetwork]) -> None:
    lab, red, _ = networks
    for node in lab.nodes:
        assert not ping(red.pods[0].namespace, str(node.address), timeout=0.05)
        with tcp_server(node.namespace, str(node.address), 22) as tcp:
            assert not tcp_talks(red.pods[0].namespace, str(node.address), 22, tcp, timeout=0.05)
    assert lab.nodes[0].dropped(DropReason.NO_ROUTE) > 0
