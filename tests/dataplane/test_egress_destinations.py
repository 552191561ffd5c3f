"""Destinations of egress: ranges that are not public are denied, except for the parts that ring0 allows."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface

import pytest
from msgspec.structs import replace

from alcove.api import destinations
from alcove.dataplane.model import DataplaneService, Gateway, NodePort, Protocol, ServiceBackend
from alcove.testing.networks import LabNetwork, apply_networks
from alcove.testing.nodes import Lab
from alcove.testing.probes import (
    IMPATIENT,
    TIMEOUT,
    connect,
    ping,
    tcp_server,
    tcp_talks,
    udp_socket,
    udp_talks,
)

VNI = 8003
PUBLIC = ("198.52.100.5", "2a0e:5::5")
PRIVATE = ("172.30.9.5", "fd99::5")
NODE_ADDRESS, NODE_ADDRESS6 = IPv4Address("10.0.1.240"), IPv6Address("fd00:0:0:1::240")
VIP = ip_address("172.20.0.80")


class Egress:
    """A node with one pod, whose network has egress; a public host and a private one."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.node = lab.nodes[0]
        self.public = lab.add_host("public", f"{PUBLIC[0]}/24", f"{PUBLIC[1]}/64")
        self.private = lab.add_host("private", f"{PRIVATE[0]}/24", f"{PRIVATE[1]}/64")
        self.pod = self.node.add_pod("pod", VNI, "10.0.1.11/24", "fd00:0:0:1::11/64")
        self.network = LabNetwork(VNI, pods=[self.pod], gateways={})
        self.allow()

    def allow(self, *cidrs: str, is_enabled: bool = True, node_ports: tuple[NodePort, ...] = ()) -> None:
        self.network.gateways[0] = Gateway(
            VNI,
            (ip_interface("10.0.1.1/24"), ip_interface("fd00:0:0:1::1/64")),
            NODE_ADDRESS,
            is_enabled,
            NODE_ADDRESS6,
            destinations.NOT_PUBLIC,
            destinations.networks(cidrs),
        )
        apply_networks(self.lab, self.network)
        self.node.apply(node_ports=node_ports)

    def assert_reached(self, host: int, address: str, works: bool) -> None:
        """The pod reaches the host by TCP, UDP and ping, or by none of them."""
        patience, pod = TIMEOUT if works else IMPATIENT, self.pod.namespace
        with tcp_server(host, address, 80) as tcp80, udp_socket(host, address, 53) as udp53:
            assert tcp_talks(pod, address, 80, tcp80, timeout=patience) is works
            assert udp_talks(pod, address, 53, udp53, timeout=patience) is works
            assert ping(pod, address, timeout=patience) is works


@pytest.fixture(scope="module")
def egress() -> Iterator[Egress]:
    with Lab(1) as lab:
        yield Egress(lab)


@pytest.mark.parametrize("family", [0, 1])
def test_private_hosts_are_denied_until_ring0_allows_them(egress: Egress, family: int) -> None:
    others = ("10.0.0.0/8", "172.30.9.6/32", "172.30.8.0/24", "fd98::/16", "fd99::6/128")
    opening = ("172.16.0.0/12", "172.30.9.0/24", "fd99::/64", "fd99::5/128")
    for cidrs, works in ((), False), (others, False), (opening, True), (others, False), ((), False):
        egress.allow(*cidrs)
        egress.assert_reached(egress.private, PRIVATE[family], works)
        egress.assert_reached(egress.public, PUBLIC[family], True)


def test_allowed_destinations_open_nothing_in_a_network_without_egress(egress: Egress) -> None:
    egress.allow("172.30.9.0/24", "fd99::/64", is_enabled=False)
    for private, public in zip(PRIVATE, PUBLIC, strict=True):
        egress.assert_reached(egress.private, private, False)
        egress.assert_reached(egress.public, public, False)


def test_a_connection_ends_when_its_destination_is_no_longer_allowed(egress: Egress) -> None:
    egress.allow("172.30.9.0/24")
    with tcp_server(egress.private, PRIVATE[0], 81) as server:
        client = connect(egress.pod.namespace, PRIVATE[0], 81)
        assert client is not None
        accepted, _ = server.accept()
        with client, accepted:
            accepted.settimeout(TIMEOUT)
            client.sendall(b"before")
            assert accepted.recv(16) == b"before"
            egress.allow()
            accepted.settimeout(0.3)
            client.sendall(b"after")
            with pytest.raises(TimeoutError):
                accepted.recv(16)
            egress.allow("172.30.9.0/24")
            accepted.settimeout(TIMEOUT)
            assert accepted.recv(16) == b"after", "it was the rule that held it back"


def test_nodes_and_metadata_are_unreachable_whatever_is_allowed(egress: Egress) -> None:
    egress.allow("192.168.0.0/16", "169.254.0.0/16", "127.0.0.0/8", "8000::/1", "::/3")
    pod, node = egress.pod.namespace, egress.node
    for address in map(str, (node.address, node.address6)):
        with tcp_server(node.namespace, address, 22) as ssh:
            assert not tcp_talks(pod, address, 22, ssh, timeout=IMPATIENT)
        assert not ping(pod, address, timeout=IMPATIENT)
    metadata = egress.lab.add_host("metadata", "169.254.169.254/16")
    with tcp_server(metadata, "169.254.169.254", 80) as server:
        assert not tcp_talks(pod, "169.254.169.254", 80, server, timeout=IMPATIENT)
    assert not ping(pod, "fe80::1", timeout=IMPATIENT)


@pytest.mark.parametrize("keep_client", [False, True])
def test_private_clients_may_use_node_ports(egress: Egress, keep_client: bool) -> None:
    """The pod answers them, but opens no connections to them."""
    backends = (ServiceBackend(ip_address(egress.pod.address), 8080),)
    egress.network = replace(
        egress.network, services=(DataplaneService(VNI, VIP, 80, Protocol.TCP, backends),)
    )
    port = NodePort(VNI, egress.node.address, 30080, Protocol.TCP, VIP, 80, keep_client=keep_client)
    egress.allow(node_ports=(port,))
    with tcp_server(egress.pod.namespace, egress.pod.address, 8080) as server:
        assert tcp_talks(egress.private, str(egress.node.address), 30080, server)
    egress.assert_reached(egress.private, PRIVATE[0], False)
    egress.network = replace(egress.network, services=())
    egress.allow()
