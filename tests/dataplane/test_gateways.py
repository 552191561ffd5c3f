"""Gateways: the agent's sockets in each network, egress, and node ports."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface, ip_network

import pytest

from alcove.dataplane.drops import DropReason
from alcove.dataplane.gateways import UPLINKS
from alcove.dataplane.model import (
    DataplaneService,
    Gateway,
    NodePort,
    PrefixBlock,
    Protocol,
    RemoteEndpoint,
    ServiceBackend,
    TrafficProfile,
    TrafficRule,
)
from alcove.dataplane.namespaces import path_of
from alcove.testing.networks import LabNetwork, apply_networks, endpoints_of
from alcove.testing.nodes import Lab, NamespacePod
from alcove.testing.packets import ROUTER_MAC, Tap, ethernet, ipv4, udp
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

OPEN, CLOSED = 8001, 8002
OUTSIDE, OUTSIDE6 = "203.0.113.5", "2001:db8:5::5"
GATEWAYS = ("10.0.1.1", "10.0.2.1", "fd00:0:0:1::1")
NODE_ADDRESSES = ("10.0.1.240", "10.0.1.241")
NODE_ADDRESSES6 = ("fd00:0:0:1::240", "fd00:0:0:1::241")


class Gated:
    """Two networks of the same addresses, one with egress, one without; and a host outside."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.outside = lab.add_host("outside", f"{OUTSIDE}/24", f"{OUTSIDE6}/64")
        self.open, self.closed = (self.make(vni, egress=vni == OPEN) for vni in (OPEN, CLOSED))
        self.apply()

    def make(self, vni: int, egress: bool) -> LabNetwork:
        network = LabNetwork(vni, pods=[], gateways={})
        for node, name, host in ((0, "near", 11), (0, "other", 12), (1, "far", 13)):
            addresses = (f"10.0.1.{host}/24", f"fd00:0:0:1::{host}/64")
            network.pods.append(self.lab.nodes[node].add_pod(f"{name}{vni}", vni, *addresses))
        shared = tuple(ip_interface(f"{one}/{64 if ':' in one else 24}") for one in GATEWAYS)
        for number, own in enumerate(NODE_ADDRESSES):
            six = IPv6Address(NODE_ADDRESSES6[number])
            network.gateways[number] = Gateway(vni, shared, IPv4Address(own), egress, six)
        return network

    def apply(self, *node_ports: NodePort) -> None:
        apply_networks(self.lab, self.open, self.closed)
        for node in self.lab.nodes:
            # What the adapter would: the gateways' own addresses are endpoints like any.
            more = tuple(
                RemoteEndpoint(vni, ip_address(addresses[one.number]), one.address)
                for vni in (OPEN, CLOSED)
                for one in self.lab.nodes
                for addresses in (NODE_ADDRESSES, NODE_ADDRESSES6)
            )
            known = endpoints_of(self.open) + endpoints_of(self.closed)
            own = (node.address, node.address6, ip_address(LB))
            mine = tuple(node_port for node_port in node_ports if node_port.address in own)
            node.apply(endpoints=known + more, node_ports=mine)

    @contextmanager
    def inside_gateway(self, vni: int, node: int = 0) -> Iterator[int]:
        descriptor = self.lab.nodes[node].plane.gateways.open(vni)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


LB = "198.51.100.7"


@pytest.fixture(scope="module")
def gated() -> Iterator[Gated]:
    with Lab(2) as lab:
        yield Gated(lab)


@pytest.mark.parametrize("family", [4, 6])
def test_a_socket_in_the_gateway_serves_its_network_only(gated: Gated, family: int) -> None:
    address = GATEWAYS[0] if family == 4 else GATEWAYS[2]
    with (
        gated.inside_gateway(OPEN) as place,
        udp_socket(place, address, 53) as udp53,
        tcp_server(place, address, 443) as tcp443,
    ):
        for pod in gated.open.pods[:2]:
            assert udp_talks(pod.namespace, address, 53, udp53)
            assert tcp_talks(pod.namespace, address, 443, tcp443)
        for pod in (*gated.closed.pods, gated.open.pods[2]):
            assert not udp_talks(pod.namespace, address, 53, udp53, timeout=0.03), (
                "another network's, or node's"
            )


def test_a_service_may_be_the_gateways(gated: Gated) -> None:
    vip = "172.20.0.53"
    backend = (ServiceBackend(ip_address(GATEWAYS[0]), 5353),)
    gated.open.services = (DataplaneService(OPEN, ip_address(vip), 53, Protocol.UDP, backend),)
    gated.apply()
    for node, pod in ((0, gated.open.pods[0]), (1, gated.open.pods[2])):
        with gated.inside_gateway(OPEN, node) as place, udp_socket(place, GATEWAYS[0], 5353) as server:
            assert udp_talks(pod.namespace, vip, 53, server), "each pod asks its own node's"
    gated.open.services = ()
    gated.apply()


def test_probes_reach_pods_that_policies_isolate(gated: Gated) -> None:
    pod = gated.open.pods[0]
    pod.node.set_port(pod, ingress=TrafficProfile(), egress=TrafficProfile())
    gated.apply()
    with gated.inside_gateway(OPEN) as place, tcp_server(pod.namespace, pod.address, 8080) as server:
        assert tcp_talks(place, pod.address, 8080, server)
        assert not tcp_talks(gated.open.pods[1].namespace, pod.address, 8080, server, timeout=0.03)
    pod.node.set_port(pod, ingress=None, egress=None)
    gated.apply()


def assert_egress(gated: Gated, pod: NamespacePod, works: bool, outside: str = OUTSIDE) -> None:
    """The pod reaches the host outside by TCP, UDP and ping, or by none of them."""
    patience = TIMEOUT if works else IMPATIENT
    with tcp_server(gated.outside, outside, 80) as tcp80, udp_socket(gated.outside, outside, 53) as udp53:
        assert tcp_talks(pod.namespace, outside, 80, tcp80, timeout=patience) is works
        assert udp_talks(pod.namespace, outside, 53, udp53, timeout=patience) is works
        assert ping(pod.namespace, outside, timeout=patience) is works


@pytest.mark.parametrize("outside", [OUTSIDE, OUTSIDE6])
def test_networks_with_egress_reach_hosts_outside(gated: Gated, outside: str) -> None:
    for pod in gated.open.pods:
        assert_egress(gated, pod, True, outside)
    for pod in gated.closed.pods:
        assert_egress(gated, pod, False, outside)
    assert gated.lab.nodes[0].dropped(DropReason.NO_ROUTE) > 0


@pytest.mark.parametrize("outside", [OUTSIDE, OUTSIDE6])
def test_egress_has_the_nodes_address_and_the_networks_share_of_ports(gated: Gated, outside: str) -> None:
    pod = gated.open.pods[0]
    low, high = pod.node.settings.nat_ports
    with tcp_server(gated.outside, outside, 81) as server:
        client = connect(pod.namespace, outside, 81)
        assert client is not None
        accepted, (address, port, *_) = server.accept()
        assert address == str(pod.node.address if outside == OUTSIDE else pod.node.address6)
        assert low <= port <= high
        client.close()
        accepted.close()


def test_egress_policy_holds_for_hosts_outside(gated: Gated) -> None:
    pod = gated.open.pods[0]
    for prefix, works in (("203.0.113.0/24", True), ("203.0.114.0/24", False)):
        pod.node.set_port(pod, egress=TrafficProfile((TrafficRule((PrefixBlock(ip_network(prefix)),)),)))
        gated.apply()
        assert_egress(gated, pod, works)
    pod.node.set_port(pod, egress=None)
    gated.apply()


def test_egress_reaches_no_node(gated: Gated) -> None:
    """Neither a node's services nor its tunnel port, its own or another's; nor link-local metadata."""
    pod = gated.open.pods[0]
    before = pod.node.dropped(DropReason.UNDERLAY)
    for node in gated.lab.nodes:
        with (
            tcp_server(node.namespace, str(node.address), 22) as ssh,
            udp_socket(node.namespace, str(node.address), 4790) as other,
        ):
            assert not tcp_talks(pod.namespace, str(node.address), 22, ssh, timeout=0.03)
            assert not udp_talks(pod.namespace, str(node.address), 4790, other, timeout=0.03)
        assert not ping(pod.namespace, str(node.address), timeout=0.03)
        with tcp_server(node.namespace, str(node.address6), 22) as ssh:
            assert not tcp_talks(pod.namespace, str(node.address6), 22, ssh, timeout=0.03)
        assert not ping(pod.namespace, str(node.address6), timeout=0.03)
    for nobodys in ("169.254.169.254", "fe80::1", "fd00:a1c0:f::1", "fd00:a1c0:f::2"):
        assert not ping(pod.namespace, nobodys, timeout=0.03)
    forged = udp(pod.address, str(gated.lab.nodes[1].address), 4789, 4789, b"forged tunnel packet")
    with Tap(pod.namespace, "eth0") as gun, Tap(gated.lab.nodes[1].namespace, "eth0") as wire:
        gun.send(
            ethernet(
                pod.veth.mac,
                ROUTER_MAC,
                0x0800,
                ipv4(pod.address, str(gated.lab.nodes[1].address), 17, forged),
            )
        )
        assert wire.catch(b"forged tunnel packet", timeout=0.03) is None
    assert pod.node.dropped(DropReason.UNDERLAY) >= before + 7


def test_no_network_reaches_anothers_gateway(gated: Gated) -> None:
    """By the uplinks' addresses, which all gateways have in common."""
    pod = gated.open.pods[0]
    uplinks = [UPLINKS.network_address + n for n in range(8)]
    with gated.inside_gateway(CLOSED) as place, udp_socket(place, "0.0.0.0", 53) as server:
        for address in uplinks:
            assert not udp_talks(pod.namespace, str(address), 53, server, timeout=0.02)


def test_the_host_keeps_its_own_traffic(gated: Gated) -> None:
    node = gated.lab.nodes[0]
    with tcp_server(node.namespace, str(node.address), 8443) as server:
        assert tcp_talks(gated.outside, str(node.address), 8443, server)
    with tcp_server(gated.outside, OUTSIDE, 82) as server:
        assert tcp_talks(node.namespace, OUTSIDE, 82, server)
    for _ in range(30):
        # Whatever the identifier: it may be one of those the exit uses.
        assert ping(node.namespace, OUTSIDE)
        assert ping(node.namespace, OUTSIDE6)
    assert ping(gated.outside, str(node.address))
    with tcp_server(node.namespace, str(node.address6), 8443) as server:
        assert tcp_talks(gated.outside, str(node.address6), 8443, server)
    assert ping(gated.outside, str(node.address6))


def node_port(gated: Gated, node: int, *, keep_client: bool = False) -> NodePort:
    address, service = gated.lab.nodes[node].address, IPv4Address("172.20.0.80")
    return NodePort(OPEN, address, 30080, Protocol.TCP, service, 80, keep_client=keep_client)


@pytest.mark.parametrize("backend", [0, 2])
def test_a_node_port_leads_to_backends_on_any_node(gated: Gated, backend: int) -> None:
    pod = gated.open.pods[backend]
    service = DataplaneService(
        OPEN, ip_address("172.20.0.80"), 80, Protocol.TCP, (ServiceBackend(ip_address(pod.address), 8080),)
    )
    gated.open.services = (service,)
    gated.apply(node_port(gated, 0), node_port(gated, 1))
    with tcp_server(pod.namespace, pod.address, 8080) as server:
        for node in gated.lab.nodes:
            assert tcp_talks(gated.outside, str(node.address), 30080, server), f"by node {node.number}"
            client = connect(gated.outside, str(node.address), 30080)
            assert client is not None
            accepted, (source, _) = server.accept()
            assert source == NODE_ADDRESSES[node.number]
            client.close()
            accepted.close()
    gated.open.services = ()
    gated.apply()
    assert connect(gated.outside, str(gated.lab.nodes[0].address), 30080, timeout=0.05) is None


@pytest.mark.parametrize(("backend", "keep_client"), [(0, False), (2, False), (0, True)])
def test_a_node_port_by_ipv6(gated: Gated, backend: int, keep_client: bool) -> None:
    """To any node's pods as the gateway's own address; to this node's as the client."""
    pod, vip, node = gated.open.pods[backend], ip_address("fd20::80"), gated.lab.nodes[0]
    backends = (ServiceBackend(ip_address(pod.address6), 8080),)
    gated.open.services = (DataplaneService(OPEN, vip, 80, Protocol.TCP, backends),)
    gated.apply(NodePort(OPEN, node.address6, 30080, Protocol.TCP, vip, 80, keep_client=keep_client))
    with tcp_server(pod.namespace, pod.address6, 8080) as server:
        assert tcp_talks(gated.outside, str(node.address6), 30080, server)
        client = connect(gated.outside, str(node.address6), 30080)
        assert client is not None
        accepted, (source, *_) = server.accept()
        assert source == (OUTSIDE6 if keep_client else NODE_ADDRESSES6[0])
        client.close()
        accepted.close()
    gated.open.services = ()
    gated.apply()
    assert connect(gated.outside, str(node.address6), 30080, timeout=0.05) is None


@pytest.mark.parametrize("backend", [0, 1, 2])
def test_pods_reach_node_ports_of_their_own_network_and_nothing_else_of_a_node(
    gated: Gated, backend: int
) -> None:
    """At any node's address, whether the backend is on it or not, or is the client; without egress, too."""
    for network in (gated.open, gated.closed):
        pod = network.pods[backend]
        to = (ServiceBackend(ip_address(pod.address), 8080),)
        network.services = (DataplaneService(network.vni, ip_address("0.0.0.0"), 30090, Protocol.TCP, to),)
    other = gated.closed if backend else gated.open
    other.services = ()
    gated.apply()
    network = gated.open if backend else gated.closed
    pod, client, stranger = network.pods[backend], network.pods[0], other.pods[0]
    with tcp_server(pod.namespace, pod.address, 8080) as server:
        for node in gated.lab.nodes:
            assert tcp_talks(client.namespace, str(node.address), 30090, server)
            assert not tcp_talks(stranger.namespace, str(node.address), 30090, server, timeout=IMPATIENT)
            with tcp_server(node.namespace, str(node.address), 22) as ssh:
                assert not tcp_talks(client.namespace, str(node.address), 22, ssh, timeout=IMPATIENT)
        pod.node.set_port(pod, ingress=TrafficProfile())
        gated.apply()
        is_own = pod is client
        patience = TIMEOUT if is_own else 0.2
        near = tcp_talks(client.namespace, str(gated.lab.nodes[0].address), 30090, server, timeout=patience)
        assert near is is_own, "the backend's policy counts; it does not apply to the backend itself"
        pod.node.set_port(pod, ingress=None)
    network.services = ()
    gated.apply()


@pytest.mark.parametrize("network", ["open", "closed"])
def test_a_client_may_keep_its_address(gated: Gated, network: str) -> None:
    """Also into a network without egress: it may answer, but open nothing."""
    chosen: LabNetwork = getattr(gated, network)
    pod = chosen.pods[0]
    chosen.services = (
        DataplaneService(
            chosen.vni,
            ip_address("172.20.0.80"),
            80,
            Protocol.TCP,
            (ServiceBackend(ip_address(pod.address), 8080),),
        ),
    )
    node = gated.lab.nodes[0]
    gated.apply(
        NodePort(
            chosen.vni, node.address, 30081, Protocol.TCP, IPv4Address("172.20.0.80"), 80, keep_client=True
        )
    )
    with tcp_server(pod.namespace, pod.address, 8080) as server:
        client = connect(gated.outside, str(node.address), 30081)
        assert client is not None
        accepted, (source, _) = server.accept()
        assert source == OUTSIDE
        client.close()
        accepted.close()
    assert_egress(gated, pod, network == "open")
    chosen.services = ()
    gated.apply()


@pytest.mark.parametrize("keep_client", [False, True])
def test_neighbours_of_the_nodes_may_use_their_node_ports(gated: Gated, keep_client: bool) -> None:
    """From the nodes' own network, which no pod may reach by itself."""
    lan = gated.lab.add_host(f"lan{int(keep_client)}", f"192.168.77.{90 + keep_client}/24")
    pod, node = gated.open.pods[0], gated.lab.nodes[0]
    backend = (ServiceBackend(ip_address(pod.address), 8080),)
    gated.open.services = (DataplaneService(OPEN, ip_address("172.20.0.80"), 80, Protocol.TCP, backend),)
    gated.apply(node_port(gated, 0, keep_client=keep_client))
    with tcp_server(pod.namespace, pod.address, 8080) as server:
        assert tcp_talks(lan, str(node.address), 30080, server)
        assert not ping(pod.namespace, f"192.168.77.{90 + keep_client}", timeout=IMPATIENT)
    gated.open.services = ()
    gated.apply()


def test_a_load_balancers_address_works_like_a_node_port(gated: Gated) -> None:
    pod = gated.open.pods[2]
    gated.open.services = (
        DataplaneService(
            OPEN,
            ip_address("172.20.0.80"),
            80,
            Protocol.UDP,
            (ServiceBackend(ip_address(pod.address), 5000),),
        ),
    )
    gated.apply(NodePort(OPEN, IPv4Address(LB), 53, Protocol.UDP, IPv4Address("172.20.0.80"), 80))
    # The host outside routes the address to a node.
    via = gated.lab.nodes[0]
    with udp_socket(pod.namespace, pod.address, 5000) as server:
        gated.lab.route(gated.outside, f"{LB}/32", via.address)
        assert udp_talks(gated.outside, LB, 53, server)
    gated.open.services = ()
    gated.apply()


def test_a_gateway_that_is_no_longer_desired_is_removed(gated: Gated) -> None:
    node = gated.lab.nodes[1]
    keep = node.state.gateways
    node.apply(gateways=tuple(one for one in keep if one.vni == OPEN))
    assert not path_of(node.plane.gateways.namespace_name(CLOSED)).exists()
    node.apply(gateways=keep)
    with gated.inside_gateway(CLOSED, 1) as place, udp_socket(place, GATEWAYS[0], 53) as server:
        assert udp_talks(gated.closed.pods[2].namespace, GATEWAYS[0], 53, server)
