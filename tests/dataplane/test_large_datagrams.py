"""Fragments, whose later pieces carry no ports; and UDP that the kernel has yet to cut (GSO)."""

import socket
from collections.abc import Iterator
from ipaddress import ip_address, ip_network

import pytest

from alcove.dataplane import links
from alcove.dataplane.drops import DropReason
from alcove.dataplane.maps import PathTaken
from alcove.dataplane.model import (
    DataplaneService,
    PortRange,
    PrefixBlock,
    Protocol,
    ServiceBackend,
    TrafficProfile,
    TrafficRule,
)
from alcove.dataplane.namespaces import inside
from alcove.testing.networks import LabNetwork, apply_networks
from alcove.testing.nodes import Lab, NamespacePod
from alcove.testing.packets import ROUTER_MAC, Tap, ethernet, ipv4, udp
from alcove.testing.probes import IMPATIENT, TIMEOUT, opened, udp_socket
from alcove.testing.server import wait_until

VNI = 6001
VIP, VIP6 = "172.20.0.20", "fd20::20"
SOL_UDP, UDP_SEGMENT, UDP_GRO = 17, 103, 104
BIG = bytes(range(256)) * 20


class Field:
    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.network = LabNetwork(VNI, pods=[])
        for node, name, host in ((0, "client", 11), (0, "near", 12), (1, "far", 13)):
            self.network.pods.append(
                lab.nodes[node].add_pod(name, VNI, f"10.0.1.{host}/24", f"fd00:0:0:1::{host}/64")
            )
        self.client, self.near, self.far = self.network.pods
        apply_networks(lab, self.network)

    def serve(self, backend: NamespacePod) -> None:
        four, six = (
            ServiceBackend(ip_address(backend.address), 5000),
            ServiceBackend(ip_address(backend.address6), 5000),
        )
        self.network.services = (
            DataplaneService(VNI, ip_address(VIP), 80, Protocol.UDP, (four,)),
            DataplaneService(VNI, ip_address(VIP6), 80, Protocol.UDP, (six,)),
        )
        apply_networks(self.lab, self.network)


@pytest.fixture
def field(two_nodes: Lab) -> Iterator[Field]:
    yield Field(two_nodes)


def echoes(
    client: NamespacePod, target: str, port: int, server: NamespacePod, listen: str, timeout: float = TIMEOUT
) -> bool:
    """A large datagram there and back."""
    six = ":" in target
    with (
        udp_socket(server.namespace, listen, 5000) as far,
        opened(client.namespace, socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM) as near,
    ):
        near.settimeout(timeout)
        far.settimeout(timeout)
        near.connect((target, port))
        near.send(BIG)
        try:
            heard, whom = far.recvfrom(65535)
            far.sendto(heard[::-1], whom)
            return near.recv(65535) == BIG[::-1]
        except TimeoutError:
            return False


@pytest.mark.parametrize("where", ["near", "far"])
def test_fragments_pass_services_and_policies(field: Field, where: str) -> None:
    server: NamespacePod = getattr(field, where)
    for six in (False, True):
        own = server.address6 if six else server.address
        assert echoes(field.client, own, 5000, server, own), "plainly"
    field.serve(server)
    for own, vip in ((server.address, VIP), (server.address6, VIP6)):
        assert echoes(field.client, vip, 80, server, own), "by a service"
        assert echoes(field.client, own, 5000, server, own), "to a backend directly"
    blocks = (PrefixBlock(ip_network("10.0.1.11/32")), PrefixBlock(ip_network("fd00:0:0:1::11/128")))
    for low, works in ((5000, True), (5001, False)):
        server.node.set_port(
            server, ingress=TrafficProfile((TrafficRule(blocks, (PortRange(Protocol.UDP, low, low + 10),)),))
        )
        server.node.apply()
        for own in (server.address, server.address6):
            assert echoes(field.client, own, 5000, server, own, TIMEOUT if works else IMPATIENT) is works, (
                "under a policy"
            )


def test_a_later_fragment_alone_is_dropped_where_ports_matter(field: Field) -> None:
    field.serve(field.near)
    node = field.lab.nodes[0]
    piece = ipv4(
        field.client.address, field.near.address, 17, b"lonely fragment!", fragment=0x00B9, identity=999
    )
    before = node.dropped(DropReason.FRAGMENT_UNKNOWN)
    with Tap(field.client.namespace, "eth0") as gun, Tap(field.near.namespace, "eth0") as tap:
        gun.send(ethernet(field.client.veth.mac, ROUTER_MAC, 0x0800, piece))
        assert tap.catch(b"lonely", timeout=0.02) is None
    wait_until(lambda: node.dropped(DropReason.FRAGMENT_UNKNOWN) == before + 1)


def test_overlapping_fragments_do_not_change_the_ports(field: Field) -> None:
    """The second piece claims other ports for the same bytes; the data plane goes by the first one's, and the
    receiver's stack refuses the overlap."""
    server, client = field.near, field.client
    server.node.set_port(
        server, ingress=TrafficProfile((TrafficRule(None, (PortRange(Protocol.UDP, 5000, 5000),)),))
    )
    server.node.apply()
    allowed = udp(client.address, server.address, 7, 5000, b"A" * 24)
    forbidden = udp(client.address, server.address, 7, 6000, b"B" * 24)
    pieces = [(allowed[:16], 0x2000), (forbidden[8:24], 0x0001 | 0x2000), (forbidden[16:], 0x0002)]
    with udp_socket(server.namespace, server.address, 6000) as victim, Tap(client.namespace, "eth0") as gun:
        for payload, where in pieces:
            packet = ipv4(client.address, server.address, 17, payload, fragment=where, identity=77)
            gun.send(ethernet(client.veth.mac, ROUTER_MAC, 0x0800, packet))
        victim.settimeout(0.05)
        with pytest.raises(TimeoutError):
            victim.recv(64)


def send_gso(
    client: NamespacePod, target: str, port: int, server: NamespacePod, listen: str
) -> tuple[int, int]:
    """12 datagrams in one call; how many arrive, and the size of the first."""
    six = ":" in target
    with (
        udp_socket(server.namespace, listen, 5000) as far,
        opened(client.namespace, socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM) as near,
    ):
        near.setsockopt(SOL_UDP, UDP_SEGMENT, 1200)
        near.connect((target, port))
        near.send(b"q" * 14400)
        sizes: list[int] = []
        try:
            while len(sizes) < 12:
                sizes.append(len(far.recv(65535)))
        except TimeoutError:
            pass
        return len(sizes), sizes[0] if sizes else 0


@pytest.mark.parametrize("where", ["near", "far"])
def test_udp_yet_to_be_cut_arrives_whole(field: Field, where: str) -> None:
    server: NamespacePod = getattr(field, where)
    for own in (server.address, server.address6):
        assert send_gso(field.client, own, 5000, server, own) == (12, 1200)
    field.serve(server)
    for own, vip in ((server.address, VIP), (server.address6, VIP6)):
        assert send_gso(field.client, vip, 80, server, own) == (12, 1200)
    if where == "far":
        assert field.lab.nodes[0].took(PathTaken.FALLBACK) >= 4
        assert field.lab.nodes[1].took(PathTaken.FALLBACK) >= 4


def test_the_fallback_device_accepts_no_packets_of_others(field: Field) -> None:
    """Its MAC differs from the router's, else it would take our frames for its own."""
    node = field.lab.nodes[0]
    with inside(node.namespace):
        device = links.read_link(node.plane.netlink, f"{node.instance}v")
    assert device is not None
    assert device.mac.hex(":") != ROUTER_MAC
