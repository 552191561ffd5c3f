"""Meters of networks count what the veths carry: by kind, to the byte, over restarts, and not what others send."""

import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, ip_address, ip_interface
from pathlib import Path

import pytest

from alcove.dataplane.dry_run import MadePacket
from alcove.dataplane.meters import TrafficBytes
from alcove.dataplane.model import (
    DataplaneService,
    Gateway,
    NodePort,
    Protocol,
    RemoteEndpoint,
    ServiceBackend,
    TrafficProfile,
)
from alcove.dataplane.namespaces import inside
from alcove.testing.networks import LabNetwork, apply_networks, endpoints_of
from alcove.testing.nodes import Lab, LabNode, NamespacePod
from alcove.testing.probes import connect, tcp_server, tcp_talks, udp_socket

VNI, OTHER = 4101, 4102
ETHERNET_BYTES = 14
OUTSIDE, BALANCER, VIP = "203.0.113.5", "198.51.100.7", "172.20.0.80"
NODE_ADDRESS = "10.0.1.240"
SIZE = 4 << 20


def meter(node: LabNode, vni: int = VNI) -> TrafficBytes:
    [found] = [each.bytes for each in node.plane.meters.read() if each.vni == vni]
    return found


def sent_bytes(pod: NamespacePod) -> int:
    """Bytes of IP packets that the pod has sent, as its veth has counted them."""
    with inside(pod.node.namespace):
        lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
    [line] = [line for line in lines if line.strip().startswith(f"{pod.veth.name}:")]
    received, packets = line.partition(":")[2].split()[:2]
    return int(received) - ETHERNET_BYTES * int(packets)


def transfer(near: socket.socket, far: socket.socket, size: int) -> None:
    near.settimeout(30)
    far.settimeout(30)
    for _ in range(size // 65536):
        near.sendall(bytes(65536))
        received = 0
        while received < 65536:
            received += len(far.recv(65536))


def network_of(lab: Lab, vni: int, *nodes: int) -> LabNetwork:
    network = LabNetwork(vni, pods=[], gateways={})
    for number, node in enumerate(nodes):
        host = 11 + number
        network.pods.append(lab.nodes[node].add_pod(f"{vni}-{number}", vni, f"10.0.1.{host}/24"))
    return network


def test_traffic_within_a_network_is_what_its_veths_carried(two_nodes: Lab) -> None:
    network, other = network_of(two_nodes, VNI, 0, 0, 1), network_of(two_nodes, OTHER, 0, 0)
    apply_networks(two_nodes, network, other)
    client, near_server, far_server = network.pods
    before = [sent_bytes(pod) for pod in network.pods]
    metered = [meter(node) for node in two_nodes.nodes]
    for server in (near_server, far_server):
        with tcp_server(server.namespace, server.address, 80) as listener:
            near = connect(client.namespace, server.address, 80)
            assert near is not None
            far, _ = listener.accept()
            with near, far:
                transfer(near, far, SIZE)
    carried = [sent_bytes(pod) - start for pod, start in zip(network.pods, before, strict=True)]
    counted = [
        meter(node).network_out - start.network_out
        for node, start in zip(two_nodes.nodes, metered, strict=True)
    ]
    assert carried[0] > 2 * SIZE
    # The veths also carry ARP, some tens of bytes.
    assert abs(counted[0] - carried[0] - carried[1]) <= 0.005 * (carried[0] + carried[1])
    assert abs(counted[1] - carried[2]) <= max(200, 0.005 * carried[2])
    received = [
        meter(node).network_in - start.network_in
        for node, start in zip(two_nodes.nodes, metered, strict=True)
    ]
    assert abs(sum(received) - sum(counted)) <= 0.005 * sum(counted)
    assert meter(two_nodes.nodes[0], OTHER) == TrafficBytes(), "another network pays nothing for it"
    assert meter(two_nodes.nodes[0]).world_out == 0


def test_what_is_dropped_or_only_tried_is_not_charged(one_node: Lab) -> None:
    network = network_of(one_node, VNI, 0, 0)
    apply_networks(one_node, network)
    client, server = network.pods
    server.node.set_port(server, ingress=TrafficProfile())
    server.node.apply()
    with udp_socket(client.namespace, client.address) as sender:
        for _ in range(10):
            sender.sendto(bytes(500), (server.address, 9))
    server.node.set_port(server, ingress=None)
    server.node.apply()
    made = MadePacket(ip_address(client.address), ip_address(server.address), 80, Protocol.TCP)
    assert one_node.nodes[0].plane.dry_run(client.veth, made).is_forwarded
    assert meter(one_node.nodes[0]) == TrafficBytes()


def test_counters_outlive_the_plane_and_end_with_the_network(one_node: Lab) -> None:
    network = network_of(one_node, VNI, 0, 0)
    apply_networks(one_node, network)
    client, server = network.pods
    node = one_node.nodes[0]
    with (
        udp_socket(client.namespace, client.address) as sender,
        udp_socket(server.namespace, server.address, 9) as far,
    ):
        sender.sendto(bytes(1000), (server.address, 9))
        assert far.recv(2000) == bytes(1000)
        [first] = node.plane.meters.read()
        assert first.bytes == TrafficBytes(network_out=1028, network_in=1028)
        node.plane.close()
        node.start()
        node.apply()
        sender.sendto(bytes(10), (server.address, 9))
        assert far.recv(2000) == bytes(10)
    [again] = node.plane.meters.read()
    assert again.table == first.table
    assert again.bytes.network_out == 1028 + 38
    for pod in network.pods:
        node.plane.remove_port(pod.veth.name)
    node.apply(veths=(), networks=(), vpcs=(), subnets=(), endpoints=())
    assert node.plane.meters.read() == [again], "the last reading is not lost with the network"
    assert node.plane.meters.read() == []
    # The same slot, for another network.
    node.pods.clear()
    later = network_of(one_node, OTHER, 0)
    apply_networks(one_node, later)
    [fresh] = node.plane.meters.read()
    assert (fresh.vni, fresh.bytes) == (OTHER, TrafficBytes())
    assert fresh.table != first.table


class Gated:
    """A network with the way out, a service with a node port and a load balancer's address, and a host outside."""

    def __init__(self, lab: Lab) -> None:
        self.node = lab.nodes[0]
        self.outside = lab.add_host("outside", f"{OUTSIDE}/24")
        self.network = network_of(lab, VNI, 0)
        [self.pod] = self.network.pods
        shared = (ip_interface("10.0.1.1/24"),)
        self.network.gateways[0] = Gateway(VNI, shared, IPv4Address(NODE_ADDRESS), egress=True)
        backend = ServiceBackend(ip_address(self.pod.address), 8080)
        self.network.services = (DataplaneService(VNI, ip_address(VIP), 80, Protocol.TCP, (backend,)),)
        apply_networks(lab, self.network)
        lab.route(self.outside, f"{BALANCER}/32", self.node.address)

    def open(self, address: str, port: int, *, keep_client: bool) -> None:
        node_port = NodePort(VNI, ip_address(address), port, Protocol.TCP, ip_address(VIP), 80, keep_client)
        gateway = RemoteEndpoint(VNI, ip_address(NODE_ADDRESS), self.node.address)
        self.node.apply(endpoints=(*endpoints_of(self.network), gateway), node_ports=(node_port,))


@pytest.fixture(scope="module")
def gated() -> Iterator[Gated]:
    with Lab(1) as lab:
        yield Gated(lab)


def test_connections_to_the_world_are_counted_at_the_pod(gated: Gated) -> None:
    before, sent = meter(gated.node), sent_bytes(gated.pod)
    with tcp_server(gated.outside, OUTSIDE, 443) as listener:
        near = connect(gated.pod.namespace, OUTSIDE, 443)
        assert near is not None
        far, _ = listener.accept()
        with near, far:
            transfer(near, far, 1 << 20)
            transfer(far, near, 1 << 20)
    used = meter(gated.node)
    assert abs(used.world_out - before.world_out - (sent_bytes(gated.pod) - sent)) <= 0.005 * SIZE
    assert 1 << 20 < used.world_in - before.world_in < 1.1 * (1 << 20)
    assert (used.network_out, used.network_in) == (before.network_out, before.network_in)
    assert used.node_port_in == before.node_port_in


@pytest.mark.parametrize("keep_client", [False, True])
@pytest.mark.parametrize("kind", ["node_port", "balancer"])
def test_clients_from_outside_are_counted_where_they_enter(
    gated: Gated, kind: str, keep_client: bool
) -> None:
    address = str(gated.node.address) if kind == "node_port" else BALANCER
    port = 30080 if kind == "node_port" else 80
    gated.open(address, port, keep_client=keep_client)
    before = meter(gated.node)
    with tcp_server(gated.pod.namespace, gated.pod.address, 8080) as listener:
        near = connect(gated.outside, address, port)
        assert near is not None
        far, _ = listener.accept()
        with near, far:
            transfer(near, far, 1 << 20)
        assert tcp_talks(gated.outside, address, port, listener)
    used = meter(gated.node)
    entered, left = (
        getattr(used, f"{kind}_{way}") - getattr(before, f"{kind}_{way}") for way in ("in", "out")
    )
    assert 1 << 20 < entered < 1.1 * (1 << 20)
    assert 100 < left < 1 << 20
    other = "balancer" if kind == "node_port" else "node_port"
    assert getattr(used, f"{other}_in") == getattr(before, f"{other}_in")
    assert used.world_in == before.world_in and used.world_out == before.world_out
    # Unless the pod sees the client itself, the packets travel through the network as the gateway's.
    assert (used.network_in == before.network_in) is keep_client
