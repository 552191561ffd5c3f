"""Into networks by host name, and from a node to its own node ports: proxies in real gateways."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface, ip_network

import pytest
from msgspec.structs import replace

from alcove.agent.ingress.certificates import IngressCertificates
from alcove.agent.ingress.gateway_dialer import GatewaySource, gateway_dial
from alcove.agent.ingress.local_node_ports import LocalNodePorts
from alcove.agent.ingress.local_node_ports import LocalService as Behind
from alcove.agent.ingress.routing_table import IngressTarget, TenantIngresses, compiled
from alcove.agent.ingress.server import IngressServer
from alcove.api.ids import TenantId
from alcove.client.keys import HOME, TenantKey
from alcove.dataplane.model import (
    DataplaneService,
    Gateway,
    NodePort,
    PrefixBlock,
    Protocol,
    RemoteEndpoint,
    ServiceBackend,
    TrafficProfile,
)
from alcove.dataplane.model import TrafficRule as PolicyRule
from alcove.dataplane.namespaces import inside
from alcove.dataplane.node_link import GATEWAY_SIDE, NODE_SIDE
from alcove.network.ingress.domains import DomainGrants
from alcove.network.ingress.ingress_spec import DesiredIngress, IngressBackend, IngressRule, PathType
from alcove.testing.ingress import granting
from alcove.testing.networks import LabNetwork, apply_networks, endpoints_of
from alcove.testing.nodes import Lab, NamespacePod
from alcove.testing.probes import IMPATIENT, TIMEOUT, connect, tcp_server

BLUE, RED = 7101, 7102
VIP, OUTSIDE = "172.20.0.80", "203.0.113.5"
NODE_ADDRESSES = ("10.0.1.240", "10.0.1.241")
NODE_ADDRESSES6 = ("fd00:0:0:1::240", "fd00:0:0:1::241")


class Site:
    """Two tenants with the same addresses; of each a pod on either node, both behind one service."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.outside = lab.add_host("outside", f"{OUTSIDE}/24")
        self.networks = {vni: self.make(vni) for vni in (BLUE, RED)}
        self.apply()

    def make(self, vni: int) -> LabNetwork:
        network = LabNetwork(vni, pods=[], gateways={})
        for node, host in ((0, 11), (1, 12)):
            own = (f"10.0.1.{host}/24", f"fd00:0:0:1::{host}/64")
            network.pods.append(self.lab.nodes[node].add_pod(f"web{node}-{vni}", vni, *own))
            gateway = (ip_interface("10.0.1.1/24"), ip_interface("fd00:0:0:1::1/64"))
            network.gateways[node] = Gateway(
                vni,
                gateway,
                IPv4Address(NODE_ADDRESSES[node]),
                node_address6=IPv6Address(NODE_ADDRESSES6[node]),
            )
        backends = tuple(ServiceBackend(ip_address(pod.address), 8080) for pod in network.pods)
        network.services = (DataplaneService(vni, ip_address(VIP), 80, Protocol.TCP, backends),)
        return network

    def apply(self) -> None:
        apply_networks(self.lab, *self.networks.values())
        gateways = tuple(
            RemoteEndpoint(vni, ip_address(addresses[node.number]), node.address)
            for vni in self.networks
            for node in self.lab.nodes
            for addresses in (NODE_ADDRESSES, NODE_ADDRESSES6)
        )
        known = sum((endpoints_of(network) for network in self.networks.values()), ())
        for node in self.lab.nodes:
            node_ports = (NodePort(BLUE, node.address, 30080, Protocol.TCP, IPv4Address(VIP), 80),)
            node.apply(endpoints=known + gateways, node_ports=node_ports)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Lab(2) as lab:
        yield Site(lab)


@contextmanager
def serving(*pods: NamespacePod) -> Iterator[None]:
    """Each pod answers with who it is and who asks."""
    with ExitStack() as stack:
        for pod in pods:
            server = stack.enter_context(tcp_server(pod.namespace, pod.address, 8080))
            thread = threading.Thread(target=_serve, args=(server, pod), daemon=True)
            thread.start()
            stack.callback(thread.join, TIMEOUT)
            stack.callback(server.shutdown, socket.SHUT_RDWR)
        yield


def _serve(server: socket.socket, pod: NamespacePod) -> None:
    while True:
        try:
            accepted, (source, _) = server.accept()
        except OSError:
            return
        with accepted:
            accepted.recv(4096)
            body = f"{pod.veth.vni}/{pod.address}/{source}".encode()
            accepted.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body)
            )


def tenant(name: str, vni: int) -> tuple[TenantKey, TenantIngresses]:
    tenant_key, web = TenantKey(HOME, TenantId(name)), IngressBackend("web", 80)
    rule = IngressRule(f"{name}.example", "/", PathType.PREFIX, web)
    wanted = DesiredIngress("2026", f"u{vni}", "default", "i", "default", (rule,), None, ())
    return tenant_key, TenantIngresses(
        tenant_key,
        (wanted,),
        {("default", "default", web): IngressTarget(tenant_key, "default", ((VIP, 80),))},
    )


def ask(namespace: int, address: str, port: int, host: str) -> bytes:
    client = connect(namespace, address, port)
    assert client is not None
    with client:
        client.settimeout(TIMEOUT)
        client.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while data := client.recv(4096):
            answer += data
    return answer.partition(b"\r\n\r\n")[2]


async def test_a_host_leads_into_its_tenants_network(site: Site) -> None:
    """Two tenants' services have the same address; the pods are on this node and on another."""
    node = site.lab.nodes[0]
    (blue, of_blue), (red, of_red) = tenant("blue", BLUE), tenant("red", RED)
    vnis = {blue: BLUE, red: RED}

    def exit_of(tenant_key: TenantKey, network: str) -> GatewaySource | None:
        return GatewaySource(vnis[tenant_key], NODE_ADDRESSES[0]) if network == "default" else None

    server = IngressServer(gateway_dial(node.plane.gateways.open, exit_of))
    server.table = compiled(
        [of_blue, of_red], granting({"blue.example": blue.tenant, "red.example": red.tenant})
    )
    with inside(node.namespace):
        listening = socket.create_server((str(node.address), 80))
    running = asyncio.create_task(server.run([listening], [], IngressCertificates(DomainGrants()).context))
    pods = [pod for network in site.networks.values() for pod in network.pods]
    try:
        with serving(*pods):
            for name, vni in (("blue", BLUE), ("red", RED)):
                answers = {
                    await asyncio.to_thread(ask, site.outside, str(node.address), 80, f"{name}.example")
                    for _ in range(24)
                }
                assert answers == {f"{vni}/10.0.1.{host}/{NODE_ADDRESSES[0]}".encode() for host in (11, 12)}
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_a_dialled_connection_stays_in_its_network(site: Site) -> None:
    """Whatever address a tenant's objects name: not a host outside, not the node, not another network."""
    node = site.lab.nodes[0]
    dial = gateway_dial(
        node.plane.gateways.open, lambda _space, _network: GatewaySource(BLUE, NODE_ADDRESSES[0])
    )
    tenant_key = TenantKey(HOME, TenantId("blue"))
    with (
        tcp_server(site.outside, OUTSIDE, 8081),
        tcp_server(node.namespace, "0.0.0.0", 8081),
        tcp_server(site.networks[RED].pods[0].namespace, "10.0.1.11", 8081),
    ):
        for address in (OUTSIDE, str(node.address), "127.0.0.1", "169.254.64.1", "10.0.1.11"):
            with pytest.raises((OSError, TimeoutError)):
                async with asyncio.timeout(0.2):
                    await dial(tenant_key, "default", address, 8081)


async def test_a_backend_is_reached_by_ipv6(site: Site) -> None:
    """On this node and on another, from the address that only this node's gateway has."""
    dial = gateway_dial(
        site.lab.nodes[0].plane.gateways.open,
        lambda _space, _network: GatewaySource(BLUE, NODE_ADDRESSES[0], NODE_ADDRESSES6[0]),
    )
    for pod in site.networks[BLUE].pods:
        with tcp_server(pod.namespace, pod.address6, 8080) as server:
            async with asyncio.timeout(TIMEOUT):
                client = await dial(TenantKey(HOME, TenantId("blue")), "default", pod.address6, 8080)
            with client:
                accepted, (source, *_) = server.accept()
                accepted.close()
                assert source == NODE_ADDRESSES6[0]


async def test_policy_holds_for_what_comes_by_host(site: Site) -> None:
    pod, node = site.networks[BLUE].pods[0], site.lab.nodes[0]
    dial = gateway_dial(
        node.plane.gateways.open, lambda _space, _network: GatewaySource(BLUE, NODE_ADDRESSES[0])
    )
    with tcp_server(pod.namespace, pod.address, 8080):
        for prefix, works in (("10.0.1.240/32", True), ("10.0.9.0/24", False)):
            node.set_port(pod, ingress=TrafficProfile((PolicyRule((PrefixBlock(ip_network(prefix)),)),)))
            site.apply()
            try:
                async with asyncio.timeout(TIMEOUT if works else IMPATIENT):
                    (await dial(TenantKey(HOME, TenantId("blue")), "default", pod.address, 8080)).close()
                assert works
            except TimeoutError:
                assert not works
    node.set_port(pod, ingress=None)
    site.apply()


async def test_a_node_reaches_its_own_node_port(site: Site) -> None:
    node = site.lab.nodes[0]
    dial = gateway_dial(
        node.plane.gateways.open, lambda _space, _network: GatewaySource(BLUE, NODE_ADDRESSES[0])
    )

    async def by_vni(service: Behind) -> socket.socket:
        assert service.vni == BLUE
        return await dial(TenantKey(HOME, TenantId("blue")), "default", service.address, service.port)

    steps = LocalNodePorts(by_vni)
    with inside(node.namespace):
        await steps.set({(str(node.address), 30080): Behind(BLUE, VIP, 80)})
    try:
        with serving(*site.networks[BLUE].pods):
            for who in (node.namespace, site.outside):
                answer = await asyncio.to_thread(ask, who, str(node.address), 30080, "any")
                assert answer.startswith(f"{BLUE}/".encode()), "the node itself, and a host outside as before"
    finally:
        steps.close()


def test_a_node_reaches_the_network_that_is_routed_and_nothing_of_it_reaches_the_node(site: Site) -> None:
    node, blue = site.lab.nodes[0], site.networks[BLUE]
    plain = blue.gateways[0]
    blue.gateways[0] = replace(plain, is_routed=True)
    site.apply()
    pods = [pod for network in site.networks.values() for pod in network.pods]
    try:
        with serving(*pods), tcp_server(node.namespace, "0.0.0.0", 8082):
            for pod in blue.pods:
                answer = ask(node.namespace, pod.address, 8080, "any").decode()
                assert answer == f"{BLUE}/{pod.address}/{NODE_ADDRESSES[0]}", "on this node and on another"
                for side in (*NODE_SIDE, *GATEWAY_SIDE):
                    assert connect(pod.namespace, str(side.ip), 8082, timeout=IMPATIENT) is None
            assert ask(node.namespace, VIP, 80, "any").startswith(f"{BLUE}/".encode())
    finally:
        blue.gateways[0] = plain
        site.apply()
    assert connect(node.namespace, blue.pods[0].address, 8080, timeout=IMPATIENT) is None
