"""The ways from one pod to another that are compared: ours, the limits, and the peers.

limits   a veth pair (same node); pods routed over the underlay without a tunnel (across nodes)
peers    Linux bridge; with nftables for services, as kube-proxy does; with kernel VXLAN, as flannel does
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv4Network, ip_address, ip_network

from msgspec import Struct

from alcove.dataplane import namespaces
from alcove.dataplane.model import (  # fmt: skip
    DataplaneNetwork,
    DataplaneService,
    PortRange,
    PrefixBlock,
    Protocol,
    RemoteEndpoint,
    ServiceBackend,
    Subnet,
    TrafficProfile,
    TrafficRule,
    Vpc,
)
from alcove.dataplane.namespaces import inside
from alcove.testing.nodes import Lab, LabNode, plain_bridges

SERVICE_PORT, POD_PORT = 80, 5000
VNI, SERVED_VNI, POLICED_VNI = 100, 101, 102
VPC = IPv4Network("10.0.0.0/8")
SERVICES = IPv4Network("172.20.0.0/16")


class Path(Struct, frozen=True):
    """From a client's namespace, by `target`, to a server listening on `listen` in another."""

    client: int
    server: int
    target: tuple[str, int]
    listen: tuple[str, int]


def _inside(namespace: str, words: list[str], message: str = "") -> None:
    words = ["nsenter", f"--net=/run/netns/{namespace}", *words]
    done = subprocess.run(words, input=message, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")


def _run(namespace: str, *commands: str) -> None:
    for command in commands:
        _inside(namespace, command.split())


def _nft(namespace: str, rules: str) -> None:
    _inside(namespace, ["nft", "-f", "-"], rules)


class Plain:
    """Namespaces with nothing of ours in them, removed at the end."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.descriptors: dict[str, int] = {}

    def make(self, name: str) -> int:
        full = self.full(name)
        self.descriptors[full] = namespaces.make(full)
        _run(full, "ip link set lo up")
        return self.descriptors[full]

    def full(self, name: str) -> str:
        return f"bench-{self.token}-{name}"

    def run(self, name: str, *commands: str) -> None:
        _run(self.full(name), *commands)

    def wire(self, one: str, link: str, other: str, far_link: str, mtu: int = 1500) -> None:
        far = f"/run/netns/{self.full(other)}"
        self.run(one, f"ip link add {link} mtu {mtu} type veth peer name {far_link} mtu {mtu} netns {far}")
        self.run(one, f"ip link set {link} up")
        self.run(other, f"ip link set {far_link} up")

    def close(self) -> None:
        for name, descriptor in self.descriptors.items():
            os.close(descriptor)
            namespaces.remove(name)


def veth(plain: Plain) -> Path:
    client, server = plain.make("v1"), plain.make("v2")
    plain.wire("v1", "eth0", "v2", "eth0")
    plain.run("v1", "ip address add 10.1.0.1/24 dev eth0")
    plain.run("v2", "ip address add 10.1.0.2/24 dev eth0")
    return Path(client, server, ("10.1.0.2", POD_PORT), ("10.1.0.2", POD_PORT))


SERVICE_RULES = """
table ip proxy {
  map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
  map no-endpoints { type ipv4_addr . inet_proto . inet_service : verdict; }
  map firewalled { type ipv4_addr . inet_proto . inet_service : verdict; }
  set cluster-ips { type ipv4_addr; }
  chain endpoint { ip saddr %(backend)s mark set 0x4000; meta l4proto tcp dnat to %(backend)s:5001; }
  chain service { numgen random mod 1 vmap { 0 : goto endpoint }; }
  chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }
  chain check-endpoints { ip daddr . meta l4proto . th dport vmap @no-endpoints; }
  chain check-firewall { ip daddr . meta l4proto . th dport vmap @firewalled; }
  chain check-cluster { ip daddr @cluster-ips reject; }
  chain masquerading { mark and 0x4000 == 0 return; mark set mark xor 0x4000; masquerade fully-random; }
  chain filter-prerouting { type filter hook prerouting priority -110; ct state new jump check-firewall; }
  chain filter-input { type filter hook input priority -110; ct state new jump check-endpoints; }
  chain filter-forward {
    type filter hook forward priority -110;
    ct state new jump check-endpoints;
    ct state new jump check-cluster;
  }
  chain filter-output { type filter hook output priority -110; ct state new jump check-endpoints; }
  chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }
  chain nat-output { type nat hook output priority -100; jump services; }
  chain nat-postrouting { type nat hook postrouting priority srcnat; jump masquerading; }
}
add element ip proxy service-ips { 172.20.0.1 . tcp . 80 : goto service }
add element ip proxy cluster-ips { 172.20.0.1 }
"""
"""Chains and hooks as kube-proxy's nftables mode has them, for one service."""


def _pods_on_bridge(plain: Plain, node: str, subnet: str, pods: list[str], *, proxied: bool) -> None:
    """A node's bridge with its address on it, as the bridge CNI plugin makes it. `proxied`: bridged frames
    pass netfilter, as kube-proxy needs it."""
    with inside(plain.descriptors[plain.full(node)]):
        plain_bridges(proxied)
    plain.run(
        node, "ip link add cni0 type bridge", "ip link set cni0 up", f"ip address add {subnet}.1/24 dev cni0"
    )
    plain.run(node, "sysctl -q net.ipv4.ip_forward=1")
    for number, pod in enumerate(pods, 11):
        plain.make(pod)
        plain.wire(node, f"h{number}", pod, "eth0")
        plain.run(node, f"ip link set h{number} master cni0")
        plain.run(
            pod, f"ip address add {subnet}.{number}/24 dev eth0", f"ip route add default via {subnet}.1"
        )


def bridge(plain: Plain) -> tuple[Path, Path]:
    """Two pods on a bridge, directly; and two on another, by a service."""
    made = []
    for letter, subnet in (("b", "10.2.0"), ("s", "10.2.1")):
        plain.make(f"{letter}0")
        _pods_on_bridge(plain, f"{letter}0", subnet, [f"{letter}1", f"{letter}2"], proxied=letter == "s")
        made.append([plain.descriptors[plain.full(f"{letter}{number}")] for number in (1, 2)])
    _nft(plain.full("s0"), SERVICE_RULES % {"backend": "10.2.1.12"})
    direct = ("10.2.0.12", POD_PORT)
    return (
        Path(made[0][0], made[0][1], direct, direct),
        Path(made[1][0], made[1][1], ("172.20.0.1", 80), ("10.2.1.12", 5001)),
    )


def _underlay(plain: Plain, nodes: list[str], net: str) -> None:
    """Nodes on a bridge, as the lab's own are. Big enough that pods have 1500 in a tunnel too."""
    with inside(plain.make(f"{nodes[0]}-underlay")):
        plain_bridges()
    plain.run(f"{nodes[0]}-underlay", "ip link add name under type bridge", "ip link set under up")
    for number, node in enumerate(nodes, 1):
        plain.make(node)
        plain.wire(f"{nodes[0]}-underlay", f"n{number}", node, "eth0", 1550)
        plain.run(f"{nodes[0]}-underlay", f"ip link set n{number} master under")
        plain.run(node, f"ip address add {net}.{number}/24 dev eth0", "sysctl -q net.ipv4.ip_forward=1")


def routed(plain: Plain) -> Path:
    """A pod on each node, a veth each, and routes: nothing between them but forwarding."""
    _underlay(plain, ["r1", "r2"], "192.168.78")
    for number, (node, other) in enumerate((("r1", 2), ("r2", 1)), 1):
        plain.make(f"r{number}p")
        plain.wire(node, "pod", f"r{number}p", "eth0", 1500)
        plain.run(
            node,
            f"ip address add 10.3.{number}.1/24 dev pod",
            f"ip route add 10.3.{other}.0/24 via 192.168.78.{other}",
        )
        plain.run(
            f"r{number}p",
            f"ip address add 10.3.{number}.11/24 dev eth0",
            f"ip route add default via 10.3.{number}.1",
        )
    client, server = (plain.descriptors[plain.full(f"r{number}p")] for number in (1, 2))
    return Path(client, server, ("10.3.2.11", POD_PORT), ("10.3.2.11", POD_PORT))


def _flannel(plain: Plain, letter: str, net: int) -> tuple[int, int]:
    """Two nodes with a pod each, a bridge and a VXLAN device on each node, entries static, as flannel does it.
    Flannel asks for netfilter on bridges (br_netfilter)."""
    nodes = [f"{letter}1", f"{letter}2"]
    _underlay(plain, nodes, f"192.168.{net}")
    for number, other in ((1, 2), (2, 1)):
        node = f"{letter}{number}"
        _pods_on_bridge(plain, node, f"10.{net}.{number}", [f"{node}p"], proxied=True)
        far = f"0e:f1:00:00:00:{other:02x}"
        plain.run(
            node,
            f"ip link add flannel.1 address 0e:f1:00:00:00:{number:02x} type vxlan id 1 dev eth0 dstport 8472"
            f" local 192.168.{net}.{number} nolearning",
            "ip link set flannel.1 mtu 1500 up",
            f"ip address add 10.{net}.{number}.0/32 dev flannel.1",
            f"ip neighbour add 10.{net}.{other}.0 lladdr {far} dev flannel.1 nud permanent",
            f"bridge fdb append {far} dev flannel.1 dst 192.168.{net}.{other}",
            f"ip route add 10.{net}.{other}.0/24 via 10.{net}.{other}.0 dev flannel.1 onlink",
        )
    client, server = (plain.descriptors[plain.full(f"{node}p")] for node in nodes)
    return client, server


def flannel(plain: Plain) -> tuple[Path, Path]:
    """Directly; and, on nodes of their own, by a service. Service rules are on every node of a cluster."""
    client, server = _flannel(plain, "f", 79)
    direct = Path(client, server, ("10.79.2.11", POD_PORT), ("10.79.2.11", POD_PORT))
    client, server = _flannel(plain, "k", 80)
    for node in ("k1", "k2"):
        _nft(plain.full(node), SERVICE_RULES % {"backend": "10.80.2.11"})
    return direct, Path(client, server, ("172.20.0.1", 80), ("10.80.2.11", 5001))


POLICY = TrafficProfile(
    (
        TrafficRule(peers=tuple(PrefixBlock(ip_network(f"10.{n}.0.0/16")) for n in range(16)), ports=(PortRange(Protocol.TCP, 5000, 5999),)),
        TrafficRule(peers=(PrefixBlock(ip_network("0.0.0.0/0"), (ip_network("10.0.0.0/8"),)),), ports=None),
    )
)  # fmt: skip


def _services(vni: int, count: int, *backends: str) -> tuple[DataplaneService, ...]:
    """`count` services; the last ones have the given backends."""
    first = SERVICES.network_address
    many = [
        DataplaneService(
            vni, first + 256 + n, 80, Protocol.TCP, (ServiceBackend(ip_address("10.250.0.0") + n, 5001),)
        )
        for n in range(count - len(backends))
    ]
    for number, backend in enumerate(backends, 1):
        many.append(
            DataplaneService(
                vni, first + number, SERVICE_PORT, Protocol.TCP, (ServiceBackend(ip_address(backend), 5001),)
            )
        )
    return tuple(many)


def ours(lab: Lab) -> dict[str, Path]:
    """On two nodes: a network without services, one with, one under policy."""
    one, two = lab.nodes
    pods = {}
    for vni in (VNI, SERVED_VNI, POLICED_VNI):
        rules = {"ingress": POLICY, "egress": POLICY} if vni == POLICED_VNI else {}
        for node, name, address in ((one, "a", 11), (one, "b", 12), (two, "c", 13)):
            pods[vni, name] = node.add_pod(f"{name}{vni}", vni, f"10.0.0.{address}/24", **rules)
    endpoints = tuple(
        RemoteEndpoint(vni, ip_address(pod.address), pod.node.address) for (vni, _), pod in pods.items()
    )
    vnis = (VNI, SERVED_VNI, POLICED_VNI)
    for node in lab.nodes:
        node.apply(
            networks=tuple(DataplaneNetwork(vni, service_prefixes=(SERVICES,)) for vni in vnis),
            vpcs=tuple(Vpc(vni, (VPC,)) for vni in vnis),
            subnets=tuple(Subnet(vni, ip_network("10.0.0.0/24")) for vni in vnis),
            endpoints=endpoints,
            services=_services(SERVED_VNI, 10, "10.0.0.12", "10.0.0.13"),
        )

    def path(vni: int, server: str, target: tuple[str, int], port: int = POD_PORT) -> Path:
        pod = pods[vni, server]
        return Path(pods[vni, "a"].namespace, pod.namespace, target, (pod.address, port))

    return {
        "same node": path(VNI, "b", ("10.0.0.12", POD_PORT)),
        "same node, service": path(SERVED_VNI, "b", ("172.20.0.1", SERVICE_PORT), 5001),
        "same node, policy": path(POLICED_VNI, "b", ("10.0.0.12", POD_PORT)),
        "across nodes": path(VNI, "c", ("10.0.0.13", POD_PORT)),
        "across nodes, service": path(SERVED_VNI, "c", ("172.20.0.2", SERVICE_PORT), 5001),
        "across nodes, policy": path(POLICED_VNI, "c", ("10.0.0.13", POD_PORT)),
    }


def scaled(lab: Lab, endpoints: int, services: int) -> Path:
    """Two pods of one node in a network with that many endpoints and services; by a service."""
    node: LabNode = lab.nodes[0]
    client = node.add_pod("a", VNI, "10.0.0.11/24")
    server = node.add_pod("b", VNI, "10.0.0.12/24")
    other = IPv4Address("192.168.77.200")
    first = ip_address("10.1.0.0")
    node.apply(
        networks=(DataplaneNetwork(VNI, service_prefixes=(SERVICES,)),),
        vpcs=(Vpc(VNI, (VPC,)),),
        subnets=(Subnet(VNI, VPC),),
        endpoints=tuple(RemoteEndpoint(VNI, first + n, other) for n in range(endpoints)),
        services=_services(VNI, services, "10.0.0.12"),
    )
    return Path(client.namespace, server.namespace, ("172.20.0.1", SERVICE_PORT), ("10.0.0.12", 5001))


@contextmanager
def everything() -> Iterator[dict[str, Path]]:
    """All paths, by the name in the table; removed at the end."""
    with Lab(2) as lab, Lab(1) as small, Lab(1) as large:
        plain = Plain(lab.token)
        try:
            paths = {"veth pair": veth(plain)}
            paths["bridge"], paths["bridge + nftables service"] = bridge(plain)
            paths["routed underlay"] = routed(plain)
            paths["flannel style"], paths["flannel style + nftables service"] = flannel(plain)
            paths |= ours(lab)
            paths["10 endpoints, 10 services"] = scaled(small, 10, 10)
            paths["100,000 endpoints, 10,000 services"] = scaled(large, 100_000, 10_000)
            yield paths
        finally:
            plain.close()
