"""Bouncers and dividers forward the first packets of a flow and name the destination; senders then send
directly, until the endpoint moves or its node dies."""

from collections.abc import Iterator
from ipaddress import ip_address

import pytest
from msgspec.structs import replace

from alcove.dataplane.drops import DropReason
from alcove.dataplane.maps import FLOW, ROUTE, TUPLE, FlowKind, MapName, PathTaken, RouteKind
from alcove.dataplane.model import RemoteEndpoint
from alcove.testing.networks import LabNetwork, apply_networks
from alcove.testing.nodes import Lab, LabNode, NamespacePod
from alcove.testing.probes import ping, tcp_server, tcp_talks, udp_socket
from alcove.testing.server import wait_until

VNI = 4001
SENDER, BOUNCER, RECEIVER, DIVIDER = range(4)
FIRST, SECOND = "10.0.1.0/24", "10.0.2.0/24"


class Bounced:
    """Subnet 1 is bounced by node 1, subnet 2 too; node 3 divides. Senders are on node 0, receivers on node 2."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.network = LabNetwork(
            VNI, prefixes=("10.0.0.0/16",), subnets=(FIRST, SECOND), pods=[],
            bouncers={FIRST: (BOUNCER,), SECOND: (BOUNCER,)}, dividers=(DIVIDER,),
        )  # fmt: skip
        self.sender = self.add(SENDER, "sender", "10.0.1.11/24")
        self.same = self.add(RECEIVER, "same", "10.0.1.12/24")
        self.other = self.add(RECEIVER, "other", "10.0.2.13/24")
        apply_networks(lab, self.network)

    def add(self, node: int, name: str, address: str) -> NamespacePod:
        pod = self.lab.nodes[node].add_pod(name, VNI, address)
        self.network.pods.append(pod)
        return pod

    def node(self, number: int) -> LabNode:
        return next(node for node in self.lab.nodes if node.number == number)

    def counts(self, number: int) -> dict[PathTaken, int]:
        return self.node(number).plane.paths()

    def has_learned(self) -> bool:
        """Whether the sender's node was told of a path: that packet and the one that was passed on race each other."""
        memory = self.node(SENDER).plane.memories.open(0)
        kinds = [TUPLE.unpack(key)["kind"] for key in memory.items()]
        memory.close()
        return FlowKind.PATH in kinds


@pytest.fixture
def bounced() -> Iterator[Bounced]:
    with Lab(4) as lab:
        yield Bounced(lab)


def sent(before: dict[PathTaken, int], after: dict[PathTaken, int]) -> dict[PathTaken, int]:
    """But for what came in."""
    return {
        path: after[path] - before[path]
        for path in PathTaken
        if after[path] != before[path] and path != PathTaken.FROM_TUNNEL
    }


def asked_routes(node: LabNode) -> list[bytes]:
    kinds = (RouteKind.SUBNET, RouteKind.VPC)
    return [raw for raw in node.plane.held[MapName.ROUTES].values() if ROUTE.unpack(raw)["kind"] in kinds]


def test_each_node_holds_only_what_it_must(bounced: Bounced) -> None:
    held = {number: len(bounced.node(number).plane.held[MapName.ENDPOINTS]) for number in range(4)}
    assert held == {SENDER: 1, BOUNCER: 3, RECEIVER: 2, DIVIDER: 0}
    routes = {number: len(asked_routes(bounced.node(number))) for number in range(4)}
    # Its own subnet and the VPC; both subnets; both and the VPC; both and the VPC.
    assert routes == {SENDER: 2, BOUNCER: 2, RECEIVER: 3, DIVIDER: 3}


def test_same_subnet_is_bounced_once_then_direct(bounced: Bounced) -> None:
    before, relayed = bounced.counts(SENDER), bounced.counts(BOUNCER)
    with (
        udp_socket(bounced.same.namespace, bounced.same.address, 9) as server,
        udp_socket(bounced.sender.namespace, bounced.sender.address) as client,
    ):
        for number in range(5):
            client.sendto(b"%d" % number, (bounced.same.address, 9))
            assert server.recv(16) == b"%d" % number
            wait_until(bounced.has_learned)
    assert sent(before, bounced.counts(SENDER)) == {PathTaken.BOUNCER: 1, PathTaken.LEARNED: 4}
    assert sent(relayed, bounced.counts(BOUNCER)) == {PathTaken.RELAYED: 1}


def test_another_subnet_goes_by_divider_then_bouncer_then_direct(bounced: Bounced) -> None:
    before = {number: bounced.counts(number) for number in range(4)}
    with (
        udp_socket(bounced.other.namespace, bounced.other.address, 9) as server,
        udp_socket(bounced.sender.namespace, bounced.sender.address) as client,
    ):
        for number in range(5):
            client.sendto(b"%d" % number, (bounced.other.address, 9))
            assert server.recv(16) == b"%d" % number
            wait_until(bounced.has_learned)
    assert sent(before[SENDER], bounced.counts(SENDER)) == {PathTaken.DIVIDER: 1, PathTaken.LEARNED: 4}
    assert sent(before[DIVIDER], bounced.counts(DIVIDER)) == {PathTaken.RELAYED: 1}
    assert sent(before[BOUNCER], bounced.counts(BOUNCER)) == {PathTaken.RELAYED: 2}


def test_tcp_and_ping_work_from_the_first_packet(bounced: Bounced) -> None:
    for target in (bounced.same, bounced.other):
        assert ping(bounced.sender.namespace, target.address)
        with tcp_server(target.namespace, target.address, 80) as server:
            assert tcp_talks(bounced.sender.namespace, target.address, 80, server)


def test_an_endpoint_that_moves_is_followed(bounced: Bounced) -> None:
    """From node 2 to node 0's neighbour, the divider: the old node passes on what still comes to it."""
    assert ping(bounced.sender.namespace, bounced.same.address)
    assert ping(bounced.sender.namespace, bounced.same.address)
    old = bounced.node(RECEIVER)
    old.plane.remove_port(bounced.same.veth.name)
    old.pods.remove(bounced.same)
    old.state = replace(old.state, veths=tuple(pod.veth for pod in old.pods))
    bounced.network.pods.remove(bounced.same)
    moved = bounced.add(DIVIDER, "moved", "10.0.1.12/24")
    apply_networks(bounced.lab, bounced.network)
    before = bounced.counts(RECEIVER)
    assert ping(bounced.sender.namespace, moved.address)
    assert sent(before, bounced.counts(RECEIVER)) == {PathTaken.RELAYED: 1}

    def goes_directly() -> bool:
        before = bounced.counts(RECEIVER)
        assert ping(bounced.sender.namespace, moved.address)
        return sent(before, bounced.counts(RECEIVER)) == {}

    wait_until(goes_directly)


def test_a_dead_node_is_forgotten(bounced: Bounced) -> None:
    assert ping(bounced.sender.namespace, bounced.same.address)
    bounced.node(RECEIVER).kill()
    for node in bounced.lab.nodes:
        node.state = replace(
            node.state, nodes=tuple(one.address for one in bounced.lab.nodes if one is not node)
        )
    bounced.network.pods.remove(bounced.same)
    bounced.network.pods.remove(bounced.other)
    replacement = bounced.add(BOUNCER, "again", "10.0.1.12/24")
    apply_networks(bounced.lab, bounced.network)
    assert ping(bounced.sender.namespace, replacement.address)


def test_a_learned_path_expires(bounced: Bounced) -> None:
    assert ping(bounced.sender.namespace, bounced.same.address)
    node = bounced.node(SENDER)
    memory = node.plane.memories.open(0)
    for key, raw in memory.items().items():
        if TUPLE.unpack(key)["kind"] == FlowKind.PATH:
            flow = FLOW.unpack(raw)
            memory.put(key, FLOW.pack(*(flow | {"tick": flow["tick"] - 60}).values()))
    before = bounced.counts(SENDER)
    assert ping(bounced.sender.namespace, bounced.same.address)
    assert sent(before, bounced.counts(SENDER)) == {PathTaken.BOUNCER: 1}


def test_an_address_without_endpoint_is_dropped_at_the_bouncer(bounced: Bounced) -> None:
    before = bounced.node(BOUNCER).dropped(DropReason.NO_ENDPOINT)
    assert not ping(bounced.sender.namespace, "10.0.1.200", timeout=0.05)
    assert bounced.node(BOUNCER).dropped(DropReason.NO_ENDPOINT) == before + 1
    before = bounced.node(DIVIDER).dropped(DropReason.NO_ENDPOINT)
    assert not ping(bounced.sender.namespace, "10.0.99.1", timeout=0.05)
    assert bounced.node(DIVIDER).dropped(DropReason.NO_ENDPOINT) == before + 1


def test_a_loop_between_bouncers_ends(bounced: Bounced) -> None:
    """Two bouncers with wrong tables send a packet to each other until its limit of hops."""
    one, two = bounced.node(BOUNCER), bounced.node(RECEIVER)
    lost = ip_address("10.0.1.77")
    for node, blamed in ((one, two), (two, one)):
        node.apply(endpoints=(*node.state.endpoints, RemoteEndpoint(VNI, lost, blamed.address)))
    before = one.dropped(DropReason.RELAY_LIMIT) + two.dropped(DropReason.RELAY_LIMIT)
    assert not ping(bounced.sender.namespace, str(lost), timeout=0.1)
    assert one.dropped(DropReason.RELAY_LIMIT) + two.dropped(DropReason.RELAY_LIMIT) == before + 1
