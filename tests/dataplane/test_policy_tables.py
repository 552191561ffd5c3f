"""Policies against truth tables, and while they are being changed."""

import socket
from collections.abc import Iterator
from ipaddress import ip_address, ip_network

import pytest

from alcove.dataplane.drops import DropReason
from alcove.dataplane.maps import TUPLE, FlowKind
from alcove.dataplane.model import (
    DataplaneService,
    PortRange,
    PrefixBlock,
    Protocol,
    ServiceBackend,
    TrafficProfile,
    TrafficRule,
)
from alcove.dataplane.policies import compile_profile
from alcove.testing.networks import LabNetwork, apply_networks
from alcove.testing.nodes import Lab, NamespacePod
from alcove.testing.packets import ROUTER_MAC, SYN, Tap, ethernet, icmp, ipv4, tcp, udp
from alcove.testing.probes import (
    IMPATIENT,
    TIMEOUT,
    connect,
    opened,
    ping,
    tcp_server,
    tcp_talks,
    udp_socket,
    udp_talks,
)
from alcove.testing.server import wait_until

VNI = 3001
NOTHING = TrafficProfile()


class Policed:
    """Three pods: `client` and `near` on node 0, `far` on node 1."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.network = LabNetwork(VNI, pods=[])
        for node, name, host in ((0, "client", 11), (0, "near", 12), (1, "far", 13)):
            self.network.pods.append(
                lab.nodes[node].add_pod(name, VNI, f"10.0.1.{host}/24", f"fd00:0:0:1::{host}/64")
            )
        self.client, self.near, self.far = self.network.pods
        apply_networks(lab, self.network)

    def police(
        self, pod: NamespacePod, ingress: TrafficProfile | None = None, egress: TrafficProfile | None = None
    ) -> None:
        pod.node.set_port(pod, ingress=ingress, egress=egress)
        pod.node.apply()

    def server(self, where: str) -> NamespacePod:
        pod: NamespacePod = getattr(self, where)
        return pod


@pytest.fixture(scope="module")
def lab_of_policies() -> Iterator[Policed]:
    with Lab(2) as lab:
        yield Policed(lab)


@pytest.fixture
def policed(lab_of_policies: Policed) -> Iterator[Policed]:
    yield lab_of_policies
    for pod in lab_of_policies.network.pods:
        lab_of_policies.police(pod)


def block(*prefixes: str, excepts: tuple[str, ...] = ()) -> tuple[PrefixBlock, ...]:
    cut = tuple(ip_network(one) for one in excepts)
    return tuple(PrefixBlock(ip_network(prefix), cut if excepts else ()) for prefix in prefixes)


def allow(peers: tuple[PrefixBlock, ...] | None = None, *ports: PortRange) -> TrafficProfile:
    return TrafficProfile((TrafficRule(peers, ports or None),))


CLIENT = block("10.0.1.11/32", "fd00:0:0:1::11/128")
OTHERS = block("10.0.1.0/24", "fd00:0:0:1::/64", excepts=("10.0.1.11/32", "fd00:0:0:1::11/128"))
WEB = PortRange(Protocol.TCP, 80, 80)
TABLE: dict[str, tuple[TrafficProfile | None, tuple[bool, bool, bool, bool]]] = {
    # profile of the server: TCP 80, TCP 81, UDP 80, ping
    "no policy": (None, (True, True, True, True)),
    "nothing": (NOTHING, (False, False, False, False)),
    "everything": (allow(), (True, True, True, True)),
    "the client": (allow(CLIENT), (True, True, True, True)),
    "others": (allow(OTHERS), (False, False, False, False)),
    "another network": (allow(block("192.168.0.0/16")), (False, False, False, False)),
    "TCP 80": (allow(None, WEB), (True, False, False, False)),
    "TCP 80 from the client": (allow(CLIENT, WEB), (True, False, False, False)),
    "TCP 80 from others": (allow(OTHERS, WEB), (False, False, False, False)),
    "UDP": (allow(None, PortRange(Protocol.UDP)), (False, False, True, False)),
    "TCP 1-80": (allow(None, PortRange(Protocol.TCP, 1, 80)), (True, False, False, False)),
    "TCP 81-90": (allow(None, PortRange(Protocol.TCP, 81, 90)), (False, True, False, False)),
    "two rules": (
        TrafficProfile((TrafficRule(CLIENT, (WEB,)), TrafficRule(OTHERS))),
        (True, False, False, False),
    ),
    "union": (
        TrafficProfile((TrafficRule(CLIENT, (WEB,)), TrafficRule(None, (PortRange(Protocol.UDP),)))),
        (True, False, True, False),
    ),
}


Outcome = tuple[bool, bool, bool, bool]


def assert_outcome(client: NamespacePod, server: NamespacePod, six: bool, wanted: Outcome) -> None:
    target = server.address6 if six else server.address
    place = server.namespace
    patience = [TIMEOUT if works else IMPATIENT for works in wanted]
    with (
        tcp_server(place, target, 80) as web,
        tcp_server(place, target, 81) as alt,
        udp_socket(place, target, 80) as datagrams,
    ):
        assert wanted == (
            tcp_talks(client.namespace, target, 80, web, timeout=patience[0]),
            tcp_talks(client.namespace, target, 81, alt, timeout=patience[1]),
            udp_talks(client.namespace, target, 80, datagrams, timeout=patience[2]),
            ping(client.namespace, target, timeout=patience[3]),
        )


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("where", ["near", "far"])
def test_ingress(policed: Policed, name: str, where: str) -> None:
    profile, wanted = TABLE[name]
    policed.police(policed.server(where), ingress=profile)
    for six in (False, True):
        assert_outcome(policed.client, policed.server(where), six, wanted)


def mirrored(profile: TrafficProfile | None, server: NamespacePod) -> TrafficProfile | None:
    """The client's egress profile that means the same: the server in the client's place."""
    if profile is None:
        return None
    own = block(f"{server.address}/32", f"{server.address6}/128")
    rest = block("10.0.1.0/24", "fd00:0:0:1::/64", excepts=(f"{server.address}/32", f"{server.address6}/128"))
    swap = {CLIENT: own, OTHERS: rest}
    return TrafficProfile(
        tuple(
            TrafficRule(swap.get(rule.peers, rule.peers) if rule.peers else None, rule.ports)
            for rule in profile.rules
        )
    )


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("where", ["near", "far"])
def test_egress(policed: Policed, name: str, where: str) -> None:
    profile, wanted = TABLE[name]
    server = policed.server(where)
    policed.police(policed.client, egress=mirrored(profile, server))
    for six in (False, True):
        assert_outcome(policed.client, server, six, wanted)


@pytest.mark.parametrize("where", ["near", "far"])
def test_replies_pass_where_nothing_may_be_opened(policed: Policed, where: str) -> None:
    """The client accepts no connections, the server may open none: connections of the client work."""
    server = policed.server(where)
    policed.police(policed.client, ingress=NOTHING)
    policed.police(server, egress=NOTHING)
    assert_outcome(policed.client, server, False, (True, True, True, True))
    assert_outcome(server, policed.client, False, (False, False, False, False))


@pytest.mark.parametrize("where", ["near", "far"])
def test_a_reply_shaped_syn_is_no_reply(policed: Policed, where: str) -> None:
    """From the server's port to the client's port of a known connection, but it opens a new one."""
    server = policed.server(where)
    policed.police(policed.client, ingress=NOTHING)
    with (
        tcp_server(server.namespace, server.address, 80) as web,
        Tap(policed.client.namespace, "eth0") as near,
    ):
        client = connect(policed.client.namespace, server.address, 80, source_port=50500)
        assert client is not None
        accepted, _ = web.accept()
        near.drain()
        with Tap(server.namespace, "eth0") as raw:
            segment = tcp(server.address, policed.client.address, 80, 50500, SYN, b"sneaky")
            raw.send(
                ethernet(
                    server.veth.mac,
                    ROUTER_MAC,
                    0x0800,
                    ipv4(server.address, policed.client.address, 6, segment),
                )
            )
        assert near.catch(b"sneaky", timeout=IMPATIENT) is None
        client.close()
        accepted.close()


@pytest.mark.parametrize("where", ["near", "far"])
def test_a_new_policy_holds_for_open_connections_too(policed: Policed, where: str) -> None:
    server = policed.server(where)
    policed.police(server, ingress=allow(CLIENT, WEB))
    with tcp_server(server.namespace, server.address, 80) as web:
        client = connect(policed.client.namespace, server.address, 80)
        assert client is not None
        accepted, _ = web.accept()
        accepted.settimeout(TIMEOUT)
        policed.police(server, ingress=allow(block("10.0.0.0/8"), WEB))
        client.sendall(b"another policy that allows it")
        assert accepted.recv(64)
        policed.police(server, ingress=allow(OTHERS, WEB))
        accepted.settimeout(0.3)
        client.sendall(b"one that does not")
        with pytest.raises(TimeoutError):
            accepted.recv(64)
        client.close()
        accepted.close()


@pytest.mark.parametrize("six", [False, True])
@pytest.mark.parametrize("where", ["near", "far"])
def test_a_policy_that_comes_later_knows_replies(policed: Policed, where: str, six: bool) -> None:
    """Opened while there was no policy anywhere; then a policy isolates the client."""
    server = policed.server(where)
    target, own = (
        (server.address6, policed.client.address6) if six else (server.address, policed.client.address)
    )
    with (
        tcp_server(server.namespace, target, 80) as web,
        udp_socket(server.namespace, target, 80) as far,
        udp_socket(policed.client.namespace, own) as near,
    ):
        client = connect(policed.client.namespace, target, 80)
        assert client is not None
        accepted, _ = web.accept()
        near.sendto(b"subscribe", (target, 80))
        _, whom = far.recvfrom(64)
        policed.police(policed.client, ingress=NOTHING)
        accepted.sendall(b"reply")
        assert client.recv(64) == b"reply"
        far.sendto(b"news", whom)
        assert near.recv(64) == b"news"
        assert_outcome(server, policed.client, six, (False, False, False, False))
        client.close()
        accepted.close()


@pytest.mark.parametrize("where", ["near", "far"])
def test_a_policy_that_comes_later_ends_what_it_forbids(policed: Policed, where: str) -> None:
    server = policed.server(where)
    with tcp_server(server.namespace, server.address, 80) as web:
        client = connect(policed.client.namespace, server.address, 80)
        assert client is not None
        accepted, _ = web.accept()
        policed.police(server, ingress=NOTHING)
        client.sendall(b"no more")
        accepted.sendall(b"nor this way")
        # Long enough for several attempts of either end.
        for one in (accepted, client):
            one.settimeout(0.7)
            with pytest.raises(TimeoutError):
                one.recv(64)
        policed.police(server)
        accepted.settimeout(TIMEOUT)
        assert accepted.recv(64) == b"no more", "allowed again, it goes on"
        client.close()
        accepted.close()


def forget_openers(policed: Policed) -> None:
    """As a table that is full does."""
    for node in policed.lab.nodes:
        memory = node.plane.memories.open(node.plane.slots()[VNI])
        kinds = {key: TUPLE.unpack(key)["kind"] for key in memory.items()}
        memory.delete_all([key for key, kind in kinds.items() if kind == FlowKind.TRACK])
        memory.close()


@pytest.mark.parametrize("where", ["near", "far"])
def test_a_connection_whose_opener_was_forgotten_goes_on(policed: Policed, where: str) -> None:
    """If either end may open it; but nothing new begins that way."""
    server = policed.server(where)
    with tcp_server(server.namespace, server.address, 80) as web:
        client = connect(policed.client.namespace, server.address, 80)
        assert client is not None
        accepted, _ = web.accept()
        forget_openers(policed)
        policed.police(policed.client, ingress=NOTHING)
        accepted.sendall(b"reply")
        assert client.recv(64) == b"reply"
        client.sendall(b"question")
        assert accepted.recv(64) == b"question"
        assert_outcome(server, policed.client, False, (False, False, False, False))
        forget_openers(policed)
        policed.police(policed.client, ingress=NOTHING, egress=NOTHING)
        client.sendall(b"no more")
        accepted.settimeout(0.3)
        with pytest.raises(TimeoutError):
            accepted.recv(64)
        client.close()
        accepted.close()


def test_no_packet_slips_through_while_policies_change(policed: Policed) -> None:
    """The client is refused by every one of a row of policies; they change under its fire."""
    server = policed.near
    refusing = [
        NOTHING,
        allow(OTHERS),
        allow(None, PortRange(Protocol.TCP)),
        allow(block("0.0.0.0/0", excepts=("10.0.1.0/24",))),
        TrafficProfile((TrafficRule(OTHERS, (PortRange(Protocol.UDP),)), TrafficRule(block("10.9.0.0/16")))),
    ]
    policed.police(server, ingress=NOTHING)
    frame = ethernet(
        policed.client.veth.mac, ROUTER_MAC, 0x0800,
        ipv4(policed.client.address, server.address, 17, udp(policed.client.address, server.address, 7, 80, b"slipped")),
    )  # fmt: skip
    with Tap(policed.client.namespace, "eth0") as gun, Tap(server.namespace, "eth0") as target:
        # The checkpoint comes between any two writes: fire there.
        plane = policed.lab.nodes[0].plane
        shots = 0

        def fire(_step: str) -> None:
            nonlocal shots
            for _ in range(3):
                gun.send(frame)
                shots += 1

        plane.checkpoint = fire
        try:
            for _round in range(3):
                for profile in refusing:
                    policed.police(server, ingress=profile)
        finally:
            plane.checkpoint = lambda _step: None
        assert shots > 100
        assert target.catch(b"slipped", timeout=0.05) is None


def test_policies_apply_to_the_backend_of_a_service(policed: Policed) -> None:
    vip = ip_address("172.20.0.5")
    backend = ServiceBackend(ip_address(policed.far.address), 8080)
    policed.network.services = (DataplaneService(VNI, vip, 80, Protocol.TCP, (backend,)),)
    apply_networks(policed.lab, policed.network)
    with tcp_server(policed.far.namespace, policed.far.address, 8080) as web:
        for port, works in ((8080, True), (80, False)):
            patience = TIMEOUT if works else IMPATIENT
            profile = allow(block(f"{policed.far.address}/32"), PortRange(Protocol.TCP, port, port))
            policed.police(policed.client, egress=profile)
            assert tcp_talks(policed.client.namespace, str(vip), 80, web, timeout=patience) is works
            policed.police(policed.client)
            profile = allow(CLIENT, PortRange(Protocol.TCP, port, port))
            policed.police(policed.far, ingress=profile)
            assert tcp_talks(policed.client.namespace, str(vip), 80, web, timeout=patience) is works
            policed.police(policed.far)
    policed.network.services = ()
    apply_networks(policed.lab, policed.network)


@pytest.mark.parametrize("where", ["near", "far"])
def test_an_icmp_error_of_an_allowed_connection_is_delivered(policed: Policed, where: str) -> None:
    """Port unreachable comes back though a policy isolates the client; an error about nothing does not."""
    server = policed.server(where)
    policed.police(policed.client, ingress=NOTHING)
    with opened(policed.client.namespace, socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(TIMEOUT)
        asker.connect((server.address, 9))
        asker.send(b"anybody?")
        with pytest.raises(ConnectionRefusedError):
            asker.recv(16)
    lost = ipv4(
        policed.client.address,
        server.address,
        17,
        udp(policed.client.address, server.address, 1, 2, b"never sent"),
    )
    error = icmp(3, 3, 0, lost)
    with Tap(server.namespace, "eth0") as raw, Tap(policed.client.namespace, "eth0") as near:
        raw.send(
            ethernet(
                server.veth.mac, ROUTER_MAC, 0x0800, ipv4(server.address, policed.client.address, 1, error)
            )
        )
        assert near.catch(b"never sent", timeout=IMPATIENT) is None


def test_a_refusal_is_counted_and_shown_with_its_policy(policed: Policed) -> None:
    node = policed.lab.nodes[1]
    profile = allow(OTHERS, WEB)
    policed.police(policed.far, ingress=profile)
    before = node.dropped(DropReason.POLICY_INGRESS)
    assert connect(policed.client.namespace, policed.far.address, 80, timeout=IMPATIENT) is None
    wait_until(lambda: node.dropped(DropReason.POLICY_INGRESS) > before)
    ends = (policed.client.address, policed.far.address, 80, Protocol.TCP)
    [shown] = [
        each
        for each in node.dropped_flows(VNI)
        if (str(each.source), str(each.target), each.target_port, each.protocol) == ends
    ]
    assert (shown.reason, shown.policy) == (DropReason.POLICY_INGRESS, compile_profile(profile).name)
