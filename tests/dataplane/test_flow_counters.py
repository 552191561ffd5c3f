"""Flows and drops as the kernel has counted them: both ends, service, sizes, times, reasons."""

import time
from contextlib import closing
from ipaddress import ip_address

import pytest

from alcove.dataplane.drops import DropReason
from alcove.dataplane.flows import TICK_SECONDS, NetworkTraffic, ObservedFlow, ServiceAddress, tcp_flag_names
from alcove.dataplane.loader import DROPPED_ENTRIES
from alcove.dataplane.model import DataplaneService, Protocol, ServiceBackend, TrafficProfile
from alcove.testing.networks import LabNetwork, apply_networks
from alcove.testing.nodes import Lab, LabNode
from alcove.testing.packets import ROUTER_MAC, Tap, ethernet, ipv4, udp
from alcove.testing.probes import IMPATIENT, connect, ping, tcp_server, tcp_talks, udp_socket, udp_talks

VNI, OTHER = 4001, 4002
VIP = "172.20.0.10"
EVERYTHING_DENIED = TrafficProfile()


def network_of(lab: Lab, vni: int, *nodes: int) -> LabNetwork:
    network = LabNetwork(vni, pods=[])
    for number, node in enumerate(nodes):
        host = 11 + number
        pod = lab.nodes[node].add_pod(f"{vni}-{number}", vni, f"10.0.1.{host}/24", f"fd00:0:0:1::{host}/64")
        network.pods.append(pod)
    return network


def traffic_of(node: LabNode) -> NetworkTraffic:
    traffic = node.plane.open_traffic(VNI)
    assert traffic is not None
    return traffic


def flow_to(node: LabNode, port: int, protocol: Protocol = Protocol.TCP) -> ObservedFlow:
    [flow] = [each for each in node.flows(VNI) if (each.target_port, each.protocol) == (port, protocol)]
    return flow


@pytest.mark.parametrize("is_policed", [False, True])
def test_both_nodes_count_a_connection_from_its_opener(two_nodes: Lab, is_policed: bool) -> None:
    network = network_of(two_nodes, VNI, 0, 1)
    client, server = network.pods
    apply_networks(two_nodes, network)
    if is_policed:
        # Its ingress concerns other connections than those that it opens.
        client.node.set_port(client, ingress=EVERYTHING_DENIED)
        client.node.apply()
    began = time.time()
    with tcp_server(server.namespace, server.address, 80) as listener:
        assert tcp_talks(client.namespace, server.address, 80, listener)
    with udp_socket(server.namespace, server.address, 53) as listener:
        assert udp_talks(client.namespace, server.address, 53, listener)
    for node in two_nodes.nodes:
        flow = flow_to(node, 80)
        assert (str(flow.source), str(flow.target)) == (client.address, server.address)
        # A handshake, four bytes each way, and the end.
        assert flow.packets >= 4 and flow.packets_back >= 3
        assert 200 <= flow.bytes <= 600 and 150 <= flow.bytes_back <= 600
        assert {"S", "F", "P", "A"} <= set(tcp_flag_names(flow.tcp_flags))
        assert began - 2 * TICK_SECONDS <= flow.start <= flow.end <= time.time() + TICK_SECONDS
        asked = flow_to(node, 53, Protocol.UDP)
        assert (asked.packets, asked.bytes) == (1, 20 + 8 + 8)
        assert (asked.packets_back, asked.bytes_back) == (1, 20 + 8 + 8)


def test_a_bulk_transfer_is_counted_to_the_byte(one_node: Lab) -> None:
    network = network_of(one_node, VNI, 0, 0)
    client, server = network.pods
    apply_networks(one_node, network)
    size = 4 << 20
    with tcp_server(server.namespace, server.address, 80) as listener:
        near = connect(client.namespace, server.address, 80)
        assert near is not None
        far, _ = listener.accept()
        with near, far:
            received = 0
            near.settimeout(30)
            far.settimeout(30)
            for _ in range(64):
                near.sendall(bytes(size // 64))
                while received % (size // 64) or not received:
                    received += len(far.recv(1 << 20))
                received = 0
        flow = flow_to(one_node.nodes[0], 80)
    # Segments that the kernel has not cut yet have one header for many: it is at most 5 % less than on a wire.
    assert size < flow.bytes < size * 1.05
    assert flow.packets >= size // 1500


def test_a_flow_names_the_service_that_was_dialed(two_nodes: Lab) -> None:
    network = network_of(two_nodes, VNI, 0, 1)
    client, server = network.pods
    backend = ServiceBackend(ip_address(server.address), 8080)
    network.services = (DataplaneService(VNI, ip_address(VIP), 80, Protocol.TCP, (backend,)),)
    apply_networks(two_nodes, network)
    with tcp_server(server.namespace, server.address, 8080) as listener:
        assert tcp_talks(client.namespace, VIP, 80, listener)
        flow = flow_to(two_nodes.nodes[0], 8080)
        assert (str(flow.target), flow.service) == (server.address, ServiceAddress(ip_address(VIP), 80))
        assert flow_to(two_nodes.nodes[1], 8080).service is None, "only the client's node translates"


def test_the_counters_go_on_after_a_restart_of_the_plane(one_node: Lab) -> None:
    network = network_of(one_node, VNI, 0, 0)
    client, server = network.pods
    apply_networks(one_node, network)
    node = one_node.nodes[0]
    with (
        udp_socket(server.namespace, server.address, 53) as far,
        udp_socket(client.namespace, client.address, 5353) as near,
    ):
        near.sendto(b"1", (server.address, 53))
        assert far.recv(8) == b"1"
        node.plane.close()
        node.plane = node.start()
        node.apply()
        near.sendto(b"2", (server.address, 53))
        assert far.recv(8) == b"2"
    assert flow_to(node, 53, Protocol.UDP).packets == 2


def test_connections_are_read_in_the_order_in_which_they_are_opened(two_nodes: Lab) -> None:
    network, other = network_of(two_nodes, VNI, 0, 1), network_of(two_nodes, OTHER, 0, 0)
    apply_networks(two_nodes, network, other)
    client, server = network.pods
    rings = [node.plane.open_rings([VNI], {})[VNI] for node in two_nodes.nodes]
    with udp_socket(server.namespace, server.address, 53) as far:
        for port in (5001, 5002):
            with udp_socket(client.namespace, client.address, port) as near:
                near.sendto(b"1", (server.address, 53))
                assert far.recv(8) == b"1"
                near.sendto(b"2", (server.address, 53))
                assert far.recv(8) == b"2"
    for node, ring in zip(two_nodes.nodes, rings, strict=True):
        openings, lost = ring.read()
        with closing(traffic_of(node)) as traffic:
            flows = traffic.opened(openings)
        assert [(each.source_port, each.packets) for each in flows] == [(5001, 2), (5002, 2)]
        assert {(str(each.source), each.target_port) for each in flows} == {(client.address, 53)}
        assert (lost, len(ring.read()[0])) == (0, 0)
    assert two_nodes.nodes[0].plane.open_rings([OTHER], {})[OTHER].count == 0, (
        "another network's ring is its own"
    )


def test_a_ring_is_followed_across_a_restart_of_the_plane_and_not_into_another_network(one_node: Lab) -> None:
    network = network_of(one_node, VNI, 0, 0)
    client, server = network.pods
    apply_networks(one_node, network)
    node = one_node.nodes[0]
    assert ping(client.namespace, server.address)
    ring = node.plane.open_rings([VNI], {})[VNI]
    assert len(ring.read()[0]) == 1
    node.plane.close()
    node.plane = node.start()
    node.apply()
    assert ping(client.namespace, server.address)
    assert len(ring.read()[0]) == 1
    assert node.plane.open_rings([VNI], {VNI: ring})[VNI] is ring
    node.plane.memories.drop(node.plane.slots()[VNI])
    node.plane.memories.ensure(node.plane.slots()[VNI], 64)
    again = node.plane.open_rings([VNI], {VNI: ring})[VNI]
    assert (again is ring, again.count) == (False, 0)


def test_pings_are_flows_too(one_node: Lab) -> None:
    network = network_of(one_node, VNI, 0, 0)
    client, server = network.pods
    apply_networks(one_node, network)
    assert ping(client.namespace, server.address)
    [flow] = [each for each in one_node.nodes[0].flows(VNI) if each.protocol == Protocol.ICMP]
    assert (str(flow.source), flow.packets, flow.packets_back) == (client.address, 1, 1)


def test_drops_are_of_the_pod_that_caused_them(one_node: Lab) -> None:
    network = network_of(one_node, VNI, 0, 0)
    client, server = network.pods
    apply_networks(one_node, network)
    client.node.set_port(client, egress=EVERYTHING_DENIED)
    client.node.apply()
    assert connect(client.namespace, server.address, 5432, timeout=IMPATIENT) is None
    spoofed = ipv4("10.0.1.99", server.address, 17, udp("10.0.1.99", server.address, 1, 2, b"not me"))
    with Tap(client.namespace, "eth0") as raw:
        raw.send(ethernet(client.veth.mac, ROUTER_MAC, 0x0800, spoofed))
    drops = {each.reason: each for each in one_node.nodes[0].dropped_flows(VNI)}
    denied = drops[DropReason.POLICY_EGRESS]
    assert (str(denied.source), str(denied.target)) == (client.address, server.address)
    assert (denied.target_port, denied.protocol) == (5432, Protocol.TCP)
    assert denied.packets >= 1 and denied.bytes >= 60
    assert str(drops[DropReason.SPOOFED_ADDRESS].source) == client.address


def test_a_reply_that_policy_refuses_is_a_drop_of_its_connection(one_node: Lab) -> None:
    network = network_of(one_node, VNI, 0, 0)
    client, server = network.pods
    apply_networks(one_node, network)
    with tcp_server(server.namespace, server.address, 5432) as listener:
        near = connect(client.namespace, server.address, 5432)
        assert near is not None
        far, _ = listener.accept()
        server.node.set_port(server, ingress=EVERYTHING_DENIED)
        server.node.apply()
        with near, far:
            far.sendall(b"too late")
            [drop] = one_node.nodes[0].dropped_flows(VNI)
    assert (str(drop.source), str(drop.target), drop.target_port) == (client.address, server.address, 5432)
    assert drop.reason is DropReason.POLICY_INGRESS


def test_a_flood_of_drops_leaves_other_networks_drops_and_flows_alone(one_node: Lab) -> None:
    loud, quiet = (network_of(one_node, vni, 0, 0) for vni in (OTHER, VNI))
    apply_networks(one_node, loud, quiet)
    node = one_node.nodes[0]
    for network in (loud, quiet):
        node.set_port(network.pods[0], egress=EVERYTHING_DENIED)
    node.apply()
    client, server = quiet.pods
    assert connect(client.namespace, server.address, 5432, timeout=IMPATIENT) is None
    before = node.plane.network_drops()
    with Tap(loud.pods[0].namespace, "eth0") as gun:
        mac, source, target = loud.pods[0].veth.mac, loud.pods[0].address, loud.pods[1].address
        for port in range(1, 4 * DROPPED_ENTRIES):
            gun.send(
                ethernet(mac, ROUTER_MAC, 0x0800, ipv4(source, target, 17, udp(source, target, 9, port, b"")))
            )
    assert DROPPED_ENTRIES // 4 < len(node.dropped_flows(OTHER)) <= DROPPED_ENTRIES
    after = node.plane.network_drops()
    assert after[OTHER] - before[OTHER] >= 4 * DROPPED_ENTRIES - 1
    assert before[VNI] > 0 and after[VNI] - before[VNI] < 10, "nobody else's table has to be read again"
    reasons = {each.reason for each in node.dropped_flows(VNI) if each.target_port == 5432}
    assert reasons == {DropReason.POLICY_EGRESS}
