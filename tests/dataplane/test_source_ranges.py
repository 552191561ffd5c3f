"""Load balancers' addresses are open to the clients in their ranges, and to nobody else."""

from collections.abc import Iterator
from ipaddress import IPv4Address, ip_address, ip_interface, ip_network

import pytest

from alcove.dataplane.model import DataplaneService, Gateway, NodePort, Protocol, ServiceBackend
from alcove.testing.networks import LabNetwork, apply_networks
from alcove.testing.nodes import Lab
from alcove.testing.probes import IMPATIENT, TIMEOUT, tcp_server, tcp_talks, udp_socket, udp_talks

VNI = 8005
BALANCED = IPv4Address("198.51.100.7")
VIP = IPv4Address("172.20.0.80")


class Balanced:
    """A node with a pod behind a load balancer's address, and two clients outside."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.node = lab.nodes[0]
        self.friend = lab.add_host("friend", "203.0.113.5/24")
        self.stranger = lab.add_host("stranger", "192.0.2.5/24")
        for client in (self.friend, self.stranger):
            lab.route(client, f"{BALANCED}/32", self.node.address)
        self.pod = self.node.add_pod("pod", VNI, "10.0.1.11/24", "fd00:0:0:1::11/64")
        gateway = Gateway(VNI, (ip_interface("10.0.1.1/24"),), IPv4Address("10.0.1.240"))
        backend = (ServiceBackend(ip_address(self.pod.address), 8080),)
        services = tuple(
            DataplaneService(VNI, VIP, 80, protocol, backend) for protocol in (Protocol.TCP, Protocol.UDP)
        )
        self.network = LabNetwork(VNI, pods=[self.pod], gateways={0: gateway}, services=services)

    def admit(self, *clients: str, keep_client: bool) -> None:
        ranges = tuple(ip_network(each) for each in clients)
        node_ports = tuple(
            NodePort(VNI, BALANCED, 80, protocol, VIP, 80, keep_client=keep_client, clients=ranges)
            for protocol in (Protocol.TCP, Protocol.UDP)
        )
        apply_networks(self.lab, self.network)
        self.node.apply(node_ports=node_ports)

    def assert_served(self, client: int, works: bool) -> None:
        """The client reaches the pod by TCP and UDP, or by neither."""
        patience, target = TIMEOUT if works else IMPATIENT, str(BALANCED)
        inside, address = self.pod.namespace, self.pod.address
        with tcp_server(inside, address, 8080) as tcp, udp_socket(inside, address, 8080) as udp:
            assert tcp_talks(client, target, 80, tcp, timeout=patience) is works
            assert udp_talks(client, target, 80, udp, timeout=patience) is works


@pytest.fixture(scope="module")
def balanced() -> Iterator[Balanced]:
    with Lab(1) as lab:
        yield Balanced(lab)


@pytest.mark.parametrize("keep_client", [False, True])
def test_only_clients_in_the_ranges_reach_a_load_balancers_address(
    balanced: Balanced, keep_client: bool
) -> None:
    balanced.admit("203.0.113.0/24", "203.0.113.5/32", keep_client=keep_client)
    balanced.assert_served(balanced.friend, True)
    balanced.assert_served(balanced.stranger, False)
    balanced.admit("0.0.0.0/0", keep_client=keep_client)
    balanced.assert_served(balanced.stranger, True)
    balanced.admit("fd00::/8", keep_client=keep_client)
    balanced.assert_served(balanced.friend, False)
