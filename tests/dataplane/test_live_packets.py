"""A real packet out of a pod's interface: what comes back, and that nothing else is taken for it."""

import asyncio
from ipaddress import ip_address
from pathlib import Path

import pytest

from alcove.agent.network import live_packet
from alcove.agent.server.capture import CapturePlace
from alcove.api.node_api import LiveReply
from alcove.dataplane.dry_run import MadePacket
from alcove.dataplane.model import DataplaneService, Protocol, ServiceBackend, TrafficProfile
from alcove.testing.networks import LabNetwork, apply_networks
from alcove.testing.nodes import Lab, NamespacePod
from alcove.testing.packets import Tap
from alcove.testing.probes import tcp_server

VNI = 4201
VIP = "172.20.0.10"


@pytest.fixture
def ends(two_nodes: Lab) -> tuple[NamespacePod, NamespacePod]:
    """A client, and on another node a server, which is also a service's backend."""
    network = LabNetwork(VNI, pods=[])
    for node, host in ((0, 11), (1, 12)):
        pod = two_nodes.nodes[node].add_pod(f"p{host}", VNI, f"10.0.1.{host}/24", f"fd00:0:0:1::{host}/64")
        network.pods.append(pod)
    client, server = network.pods
    backend = ServiceBackend(ip_address(server.address), 8080)
    network.services = (DataplaneService(VNI, ip_address(VIP), 80, Protocol.TCP, (backend,)),)
    apply_networks(two_nodes, network)
    return client, server


def sent(client: NamespacePod, target: str, port: int, protocol: Protocol = Protocol.TCP) -> LiveReply:
    version = ip_address(target).version
    own = next(each.ip for each in client.veth.addresses if each.version == version)
    place = CapturePlace(Path(f"/proc/self/fd/{client.namespace}"), "eth0")
    packet = MadePacket(own, ip_address(target), port, protocol)
    return asyncio.run(live_packet.send(place, client.veth.mac, packet))


def test_a_server_accepts_refuses_or_is_unreachable(ends: tuple[NamespacePod, NamespacePod]) -> None:
    client, server = ends
    with tcp_server(server.namespace, server.address, 8080):
        accepted = sent(client, server.address, 8080)
        assert (
            accepted.reply == "accepted" and 0 < accepted.milliseconds < 1e3 * live_packet.REPLY_SECONDS_MAX
        )
        assert sent(client, VIP, 80).reply == "accepted", "by the service's address"
    for end in ends:
        ports = [each.source_port for each in end.node.flows(VNI)]
        assert accepted.source_port in ports, "both nodes have counted it"
    for target in (server.address, server.address6):
        assert sent(client, target, 8081).reply == "refused", target
        assert sent(client, target, 8081, Protocol.UDP).reply == "unreachable", target


def test_an_ipv6_packet_from_another_node_comes_as_ipv6(ends: tuple[NamespacePod, NamespacePod]) -> None:
    client, server = ends
    with Tap(server.namespace, "eth0") as tap:
        sent(client, server.address6, 8081, Protocol.UDP)
        frame = tap.catch(ip_address(client.address6).packed + ip_address(server.address6).packed)
    assert frame is not None and frame[12:14] == bytes.fromhex("86dd")


def test_a_packet_that_policy_denies_is_among_the_drops(
    ends: tuple[NamespacePod, NamespacePod], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_packet, "REPLY_SECONDS_MAX", 0.2)
    client, server = ends
    server.node.set_port(server, ingress=TrafficProfile())
    server.node.apply()
    with tcp_server(server.namespace, server.address, 8080):
        assert sent(client, server.address, 8080).reply not in ("accepted", "refused")
    [drop] = server.node.dropped_flows(VNI)
    assert (str(drop.source), drop.target_port, drop.packets) == (client.address, 8080, 1)
