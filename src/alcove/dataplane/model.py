"""The desired state of the data plane: plain values without Kubernetes or tenants.

A `DataplaneState` is the desired state of one node. It is small by design: an ordinary node has its own
veths, and the subnets of the networks present on it; only bouncers have the endpoints of their subnets.
"""

from enum import IntEnum
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface

from msgspec import Struct

from alcove.dataplane.address import Address, Prefix

Interface = IPv4Interface | IPv6Interface


class Protocol(IntEnum):
    ICMP = 1
    TCP = 6
    UDP = 17
    ICMPV6 = 58
    SCTP = 132


class TrafficClass(IntEnum):
    """The priority of a pod's packets on the underlay, with Mizar's names."""

    PREMIUM = 0
    EXPEDITED = 1
    BEST_EFFORT = 2


class PrefixBlock(Struct, frozen=True, order=True):
    """The addresses of a prefix, except those in `excepts`."""

    prefix: Prefix
    excepts: tuple[Prefix, ...] = ()


class PortRange(Struct, frozen=True, order=True):
    protocol: Protocol
    low: int = 0
    high: int = 65535


class TrafficRule(Struct, frozen=True):
    """Allows peers to reach ports. None means all peers, or all ports and protocols (including ICMP)."""

    peers: tuple[PrefixBlock, ...] | None = None
    ports: tuple[PortRange, ...] | None = None


class TrafficProfile(Struct, frozen=True, cache_hash=True):
    """The connections allowed in one direction: those that match at least one rule. It may have tens of thousands of
    addresses, and is looked up in every pass."""

    rules: tuple[TrafficRule, ...] = ()


class Veth(Struct, frozen=True):
    """A pod's veth, whose host side is `name`. `addresses` has at most one of each family."""

    name: str
    vni: int
    mac: str
    addresses: tuple[Interface, ...]
    gateways: tuple[Address, ...] = ()
    """Default routes of the pod, at most one of each family."""
    ingress: TrafficProfile | None = None
    """None if all ingress is allowed."""
    egress: TrafficProfile | None = None
    rate_bytes_per_second: int = 0
    """0 means unlimited."""
    traffic_class: TrafficClass = TrafficClass.EXPEDITED
    pod_interface: str = "eth0"


class RemoteEndpoint(Struct, frozen=True):
    """An address of a network, and the node it is on."""

    vni: int
    address: Address
    node: IPv4Address


class Subnet(Struct, frozen=True):
    """`bouncers` have all its endpoints; if there are none, every node that has the network does."""

    vni: int
    prefix: Prefix
    bouncers: tuple[IPv4Address, ...] = ()


class Vpc(Struct, frozen=True):
    """`dividers` have all its subnets; if there are none, every node that has the network does."""

    vni: int
    prefixes: tuple[Prefix, ...]
    dividers: tuple[IPv4Address, ...] = ()


class ServiceBackend(Struct, frozen=True, order=True):
    address: Address
    port: int


class DataplaneService(Struct, frozen=True):
    vni: int
    address: Address
    """0.0.0.0 or :: for any node's address: a node port as used by the network's own pods."""
    port: int
    protocol: Protocol
    backends: tuple[ServiceBackend, ...]
    affinity_seconds: int = 0


class Gateway(Struct, frozen=True):
    """A network's gateway on this node: a namespace that holds `addresses`, the same on every node."""

    vni: int
    addresses: tuple[Interface, ...]
    node_address: IPv4Address | None = None
    """An address of the network that only this node's gateway has: the source of external packets."""
    egress: bool = False
    """Whether pods may open external connections."""
    node_address6: IPv6Address | None = None
    """As `node_address`, for IPv6."""
    egress_denied: tuple[Prefix, ...] = ()
    """Prefixes that pods may not reach externally; they do not overlap."""
    egress_allowed: tuple[Prefix, ...] = ()
    """Parts of `egress_denied` that pods may reach nevertheless."""
    account: int = 0
    """Gateways with the same number share the limits of external connections."""
    is_routed: bool = False
    """Whether processes on the node reach the network's addresses by routes; at most one network is."""

    def may_leave(self, address: Address) -> bool:
        """Whether its rules let pods connect to an external address; the nodes' own are excluded elsewhere."""
        is_denied = any(address in prefix for prefix in self.egress_denied)
        return self.egress and (not is_denied or any(address in prefix for prefix in self.egress_allowed))


class NodePort(Struct, frozen=True):
    """Maps an address and port of the node (or an address routed to it) to a service of the same family."""

    vni: int
    address: Address
    port: int
    protocol: Protocol
    service_address: Address
    service_port: int
    keep_client: bool = False
    """The backend sees the client's address; then it must be on this node."""
    clients: tuple[Prefix, ...] | None = None
    """The external addresses that may connect; None means all."""


class DataplaneNetwork(Struct, frozen=True):
    vni: int
    service_prefixes: tuple[Prefix, ...] = ()
    memory_entries: int = 8192
    """The size of its network memory: flows, paths and fragments."""


class DataplaneState(Struct, frozen=True):
    nodes: tuple[IPv4Address, ...] = ()
    """The other nodes. Nothing is sent to, or accepted from, nodes that are not listed."""
    networks: tuple[DataplaneNetwork, ...] = ()
    vpcs: tuple[Vpc, ...] = ()
    subnets: tuple[Subnet, ...] = ()
    endpoints: tuple[RemoteEndpoint, ...] = ()
    veths: tuple[Veth, ...] = ()
    services: tuple[DataplaneService, ...] = ()
    gateways: tuple[Gateway, ...] = ()
    node_ports: tuple[NodePort, ...] = ()
    forbidden: tuple[Prefix, ...] = ()
    """Prefixes that no pod may reach, whatever its network allows; above all the underlay."""


def by_network(state: DataplaneState) -> dict[int, DataplaneState]:
    """What gateways need of the state, apart for each network that has any: networks, VPCs and node ports, by VNI."""
    networks: dict[int, list[DataplaneNetwork]] = {}
    vpcs: dict[int, list[Vpc]] = {}
    node_ports: dict[int, list[NodePort]] = {}
    for network in state.networks:
        networks.setdefault(network.vni, []).append(network)
    for vpc in state.vpcs:
        vpcs.setdefault(vpc.vni, []).append(vpc)
    for node_port in state.node_ports:
        node_ports.setdefault(node_port.vni, []).append(node_port)
    return {
        vni: DataplaneState(
            networks=tuple(networks.get(vni, ())),
            vpcs=tuple(vpcs.get(vni, ())),
            node_ports=tuple(node_ports.get(vni, ())),
        )
        for vni in networks.keys() | vpcs.keys() | node_ports.keys()
    }


class DataplaneSettings(Struct, frozen=True):
    """The settings of an instance, fixed while it runs. Instances that share an underlay device must differ
    in name, tunnel port and NAT ports."""

    instance: str
    """The prefix of the instance's pins, links and namespaces: 1 to 4 letters and digits, unique on this
    machine."""
    node: IPv4Address
    underlay: str
    """The device that has the node's address."""
    tunnel_port: int = 4789
    nat_ports: tuple[int, int] = (20000, 29999)
    """The ports of the node's address for SNAT of pods' external connections."""
    path_seconds: int = 30
    node6: IPv6Address | None = None
    """The node's IPv6 address. Without one, external traffic of pods is IPv4 only."""
    underlay_bytes_per_second: int = 0
    """The underlay's capacity, shared between the traffic classes; 0 means unknown, without shaping."""
    count_flows: bool = True
    """Whether connections have counters. Without them the data plane is what it is compared with in `bench.sight`."""
