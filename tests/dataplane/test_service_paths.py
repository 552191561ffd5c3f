"""Services: a virtual address becomes a backend, replies come back as the service's, whatever happens."""

import socket
from collections.abc import Iterator
from ipaddress import ip_address

import pytest
from msgspec.structs import replace

from alcove.dataplane.drops import DropReason
from alcove.dataplane.maps import FLOW, TUPLE, FlowKind
from alcove.dataplane.model import DataplaneService, Protocol, ServiceBackend
from alcove.testing.networks import LabNetwork, apply_networks
from alcove.testing.nodes import Lab, NamespacePod
from alcove.testing.packets import ROUTER_MAC, Tap, crc32c, ethernet, ipv4, ipv6, sctp
from alcove.testing.probes import (
    TIMEOUT,
    connect,
    opened,
    ping,
    tcp_server,
    tcp_talks,
    udp_socket,
    udp_talks,
)

VNI = 2001
VIP, VIP6, OTHER_VIP = "172.20.0.10", "fd20::10", "172.20.0.11"


class Served:
    """A client and a backend on node 0, another client and backend on node 1."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.network = LabNetwork(VNI, pods=[])
        places = ((0, "near_client", 11), (0, "near", 12), (1, "far", 13), (1, "far_client", 14))
        for node, name, host in places:
            pod = lab.nodes[node].add_pod(name, VNI, f"10.0.1.{host}/24", f"fd00:0:0:1::{host}/64")
            self.network.pods.append(pod)
        self.client, self.near, self.far, self.far_client = self.network.pods

    def serve(self, *services: DataplaneService) -> None:
        self.network.services = services
        apply_networks(self.lab, self.network)

    def flows(self, node: int, kind: FlowKind) -> dict[bytes, bytes]:
        memory = self.lab.nodes[node].plane.memories.open(0)
        found = {key: raw for key, raw in memory.items().items() if TUPLE.unpack(key)["kind"] == kind}
        memory.close()
        return found


@pytest.fixture
def served(two_nodes: Lab) -> Iterator[Served]:
    yield Served(two_nodes)


def service(
    *backends: NamespacePod,
    port: int = 8080,
    protocol: Protocol = Protocol.TCP,
    six: bool = False,
    **more: int,
) -> DataplaneService:
    chosen = tuple(ServiceBackend(ip_address(pod.address6 if six else pod.address), port) for pod in backends)
    return DataplaneService(VNI, ip_address(VIP6 if six else VIP), 80, protocol, chosen, **more)


@pytest.mark.parametrize("six", [False, True])
@pytest.mark.parametrize("where", ["near", "far"])
def test_tcp_and_udp_reach_a_backend_here_and_there(served: Served, where: str, six: bool) -> None:
    backend: NamespacePod = getattr(served, where)
    served.serve(service(backend, six=six), service(backend, protocol=Protocol.UDP, six=six))
    target, vip = (backend.address6, VIP6) if six else (backend.address, VIP)
    with (
        tcp_server(backend.namespace, target, 8080) as tcp,
        udp_socket(backend.namespace, target, 8080) as udp,
    ):
        for client in (served.client, served.far_client):
            assert tcp_talks(client.namespace, vip, 80, tcp)
            assert udp_talks(client.namespace, vip, 80, udp)
            assert tcp_talks(client.namespace, target, 8080, tcp), "directly too"
            assert udp_talks(client.namespace, target, 8080, udp), "directly too"


@pytest.mark.parametrize("six", [False, True])
def test_a_pod_may_be_its_own_backend(served: Served, six: bool) -> None:
    served.serve(service(served.near, six=six), service(served.near, protocol=Protocol.UDP, six=six))
    target, vip = (served.near.address6, VIP6) if six else (served.near.address, VIP)
    own = served.near.namespace
    with tcp_server(own, target, 8080) as tcp, udp_socket(own, target, 8080) as udp:
        assert tcp_talks(own, vip, 80, tcp)
        assert udp_talks(own, vip, 80, udp)


def test_connections_spread_over_backends(served: Served) -> None:
    served.serve(service(served.near, served.far))
    with (
        tcp_server(served.near.namespace, served.near.address, 8080),
        tcp_server(served.far.namespace, served.far.address, 8080),
    ):
        seen = {_backend_of(served, 40000 + n) for n in range(40)}
    assert seen == {served.near.address, served.far.address}


def _backend_of(served: Served, source_port: int) -> str:
    """Which backend a connection from this port was sent to, by what is remembered of it."""
    client = connect(served.client.namespace, VIP, 80, source_port=source_port)
    assert client is not None
    client.close()
    for key, raw in served.flows(0, FlowKind.FORWARD).items():
        flow = TUPLE.unpack(key)
        if flow["sport"] == source_port.to_bytes(2, "big") and flow["target"][12:] == socket.inet_aton(VIP):
            return socket.inet_ntoa(FLOW.unpack(raw)["peer"][12:])
    raise AssertionError("nothing is remembered")


def test_affinity_keeps_a_client_at_its_backend(served: Served) -> None:
    served.serve(service(served.near, served.far, affinity_seconds=3600))
    with (
        tcp_server(served.near.namespace, served.near.address, 8080),
        tcp_server(served.far.namespace, served.far.address, 8080),
    ):
        first = {_backend_of(served, 41000 + n) for n in range(15)}
        assert len(first) == 1
        # The chosen one goes: the client is given another, and keeps that.
        rest = [pod for pod in (served.near, served.far) if pod.address not in first]
        served.serve(service(*rest, affinity_seconds=3600))
        assert {_backend_of(served, 42000 + n) for n in range(5)} == {rest[0].address}
        served.serve(service(served.near, served.far, affinity_seconds=3600))
        assert {_backend_of(served, 43000 + n) for n in range(5)} == {rest[0].address}


def test_no_backends_is_a_reason(served: Served) -> None:
    served.serve(service())
    before = served.lab.nodes[0].dropped(DropReason.NO_BACKEND)
    assert connect(served.client.namespace, VIP, 80, timeout=0.05) is None
    assert served.lab.nodes[0].dropped(DropReason.NO_BACKEND) > before


def test_a_service_address_answers_on_no_other_port(served: Served) -> None:
    served.serve(service(served.near))
    assert connect(served.client.namespace, VIP, 81, timeout=0.05) is None
    assert not ping(served.client.namespace, VIP, timeout=0.05)
    assert served.lab.nodes[0].dropped(DropReason.NO_ROUTE) >= 2


def test_an_established_connection_outlives_its_backends_entry(served: Served) -> None:
    served.serve(service(served.near))
    with tcp_server(served.near.namespace, served.near.address, 8080) as tcp:
        client = connect(served.client.namespace, VIP, 80)
        assert client is not None
        accepted, _ = tcp.accept()
        served.serve(service(served.far))
        client.sendall(b"still there?")
        accepted.settimeout(TIMEOUT)
        assert accepted.recv(64) == b"still there?"
        accepted.sendall(b"yes")
        assert client.recv(64) == b"yes"
        client.close()
        accepted.close()


def test_udp_leaves_a_backend_that_vanished(served: Served) -> None:
    served.serve(service(served.near, protocol=Protocol.UDP))
    with (
        udp_socket(served.near.namespace, served.near.address, 8080) as near,
        udp_socket(served.far.namespace, served.far.address, 8080) as far,
        opened(served.client.namespace, socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        client.connect((VIP, 80))
        client.send(b"one")
        assert near.recv(16) == b"one"
        served.serve(service(served.far, protocol=Protocol.UDP))
        client.send(b"two")
        assert far.recv(16) == b"two"


def test_stale_reverse_entry_leaves_a_later_direct_connection_alone(served: Served) -> None:
    """Same client port, same backend, first by the service, then directly: replies must be the backend's."""
    served.serve(service(served.near))
    with tcp_server(served.near.namespace, served.near.address, 8080) as tcp:
        by_service = connect(served.client.namespace, VIP, 80, source_port=45000)
        assert by_service is not None
        first, _ = tcp.accept()
        # Reset: nothing of it waits in the client's stack, and its entries stay behind.
        by_service.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        by_service.close()
        first.close()
        directly = connect(served.client.namespace, served.near.address, 8080, source_port=45000)
        assert directly is not None
        directly.close()


@pytest.mark.parametrize("order", ["service first", "direct first", "two services"])
@pytest.mark.parametrize("where", ["near", "far"])
def test_two_flows_at_once_from_one_port_to_one_backend(served: Served, order: str, where: str) -> None:
    backend: NamespacePod = getattr(served, where)
    other = replace(service(backend), address=ip_address(OTHER_VIP))
    served.serve(service(backend), other)
    targets = [(VIP, 80), (backend.address, 8080)]
    if order == "direct first":
        targets.reverse()
    if order == "two services":
        targets = [(VIP, 80), (OTHER_VIP, 80)]
    with tcp_server(backend.namespace, backend.address, 8080) as tcp:
        tcp.settimeout(TIMEOUT)
        clients, servers = [], []
        for target, port in targets:
            client = connect(served.client.namespace, target, port, source_port=46000)
            assert client is not None, f"{target}:{port}"
            clients.append(client)
            servers.append(tcp.accept()[0])
        for number, (client, server) in enumerate(zip(clients, servers, strict=True)):
            server.settimeout(TIMEOUT)
            client.sendall(b"%d" % number)
            assert server.recv(16) == b"%d" % number
            server.sendall(b"ok")
            assert client.recv(16) == b"ok"
        for one in (*clients, *servers):
            one.close()


def test_udp_to_service_and_backend_from_one_socket(served: Served) -> None:
    served.serve(service(served.far, protocol=Protocol.UDP))
    with (
        udp_socket(served.far.namespace, served.far.address, 8080) as server,
        udp_socket(served.client.namespace, served.client.address, 47000) as client,
    ):
        for target in ((VIP, 80), (served.far.address, 8080)) * 2:
            client.sendto(b"hello", target)
            word, whom = server.recvfrom(16)
            server.sendto(word, whom)
            assert client.recvfrom(16) == (b"hello", target)


def test_half_evicted_flow_heals(served: Served) -> None:
    """The table evicts each direction by itself; a lost entry of either direction is written again."""
    served.serve(service(served.near))
    node = served.lab.nodes[0]
    with tcp_server(served.near.namespace, served.near.address, 8080) as tcp:
        client = connect(served.client.namespace, VIP, 80)
        assert client is not None
        accepted, _ = tcp.accept()
        accepted.settimeout(TIMEOUT)
        client.settimeout(TIMEOUT)
        memory = node.plane.memories.open(0)
        for kind in (FlowKind.REVERSE, FlowKind.FORWARD):
            # As after a pause: only what has not been used for a while is evicted.
            for key, raw in served.flows(0, FlowKind.FORWARD).items():
                memory.put(key, _older(raw))
            memory.delete_all(list(served.flows(0, kind)))
            client.sendall(b"ping")
            assert accepted.recv(16) == b"ping"
            accepted.sendall(b"pong")
            assert client.recv(16) == b"pong"
        client.close()
        accepted.close()


def _older(raw: bytes, ticks: int = 5) -> bytes:
    flow = FLOW.unpack(raw)
    return FLOW.pack(*(flow | {"tick": flow["tick"] - ticks}).values())


@pytest.mark.parametrize("port", [80, 9899])
@pytest.mark.parametrize("six", [False, True])
def test_sctp_is_translated_with_its_checksum(served: Served, port: int, six: bool) -> None:
    """This kernel has no SCTP, so packets are built, sent raw and caught raw."""
    served.serve(service(served.far, port=port, protocol=Protocol.SCTP, six=six))
    client, backend = served.client, served.far
    payload = b"alcove sctp " * 9
    segment = sctp(40000, 80, payload)
    packet = ipv6(client.address6, VIP6, 132, segment) if six else ipv4(client.address, VIP, 132, segment)
    with Tap(client.namespace, "eth0") as near, Tap(backend.namespace, "eth0") as far:
        near.send(ethernet(client.veth.mac, ROUTER_MAC, 0x86DD if six else 0x0800, packet))
        caught = far.catch(payload)
        assert caught is not None
        start = 54 if six else 34
        found = caught[start:]
        assert int.from_bytes(found[2:4], "big") == port
        assert found[8:12] == crc32c(found[:8] + b"\0\0\0\0" + found[12:]).to_bytes(4, "little")
        answer = sctp(port, int.from_bytes(found[:2], "big"), payload[::-1])
        back = (
            ipv6(backend.address6, client.address6, 132, answer)
            if six
            else ipv4(backend.address, client.address, 132, answer)
        )
        far.send(ethernet(backend.veth.mac, ROUTER_MAC, 0x86DD if six else 0x0800, back))
        caught = near.catch(payload[::-1])
        assert caught is not None
        assert caught[start : start + 4] == segment[2:4] + segment[:2]
        assert caught[start + 8 : start + 12] == crc32c(
            caught[start : start + 8] + b"\0\0\0\0" + caught[start + 12 :]
        ).to_bytes(4, "little")


def test_udp_without_checksum_stays_without(served: Served) -> None:
    served.serve(service(served.near, protocol=Protocol.UDP))
    client = served.client
    datagram = (
        (50000).to_bytes(2, "big")
        + (80).to_bytes(2, "big")
        + (8 + 6).to_bytes(2, "big")
        + b"\0\0"
        + b"nosum!"
    )
    with Tap(client.namespace, "eth0") as near, Tap(served.near.namespace, "eth0") as far:
        near.send(ethernet(client.veth.mac, ROUTER_MAC, 0x0800, ipv4(client.address, VIP, 17, datagram)))
        caught = far.catch(b"nosum!")
        assert caught is not None
        assert caught[40:42] == b"\0\0"


@pytest.mark.parametrize("six", [False, True])
@pytest.mark.parametrize("where", ["near", "far"])
def test_a_backends_icmp_error_comes_from_the_service(served: Served, where: str, six: bool) -> None:
    """No socket listens: the backend's "port unreachable" reaches the socket that asked the service."""
    backend: NamespacePod = getattr(served, where)
    served.serve(service(backend, protocol=Protocol.UDP, six=six))
    family = socket.AF_INET6 if six else socket.AF_INET
    with opened(served.client.namespace, family, socket.SOCK_DGRAM) as asker:
        asker.settimeout(TIMEOUT)
        asker.connect((VIP6 if six else VIP, 80))
        asker.send(b"anybody?")
        with pytest.raises(ConnectionRefusedError):
            asker.recv(16)
