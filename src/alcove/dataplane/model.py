"""What the data plane is asked for: plain values that know neither Kubernetes nor tenants.

A `DataplaneState` is everything one node has to know. It is small on purpose: an ordinary node is given its own
ports, and of each network present on it the subnets; only bouncers are given their subnets' endpoints.
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
    """How a port's packets rank on the underlay. Mizar's names."""

    PREMIUM = 0
    EXPEDITED = 1
    BEST_EFFORT = 2


class PrefixBlock(Struct, frozen=True, order=True):
    """Addresses of a prefix, but for those of `excepts`."""

    prefix: Prefix
    excepts: tuple[Prefix, ...] = ()


class PortRange(Struct, frozen=True, order=True):
    protocol: Protocol
    low: int = 0
    high: int = 65535


class TrafficRule(Struct, frozen=True):
    """Lets peers reach ports. None: whoever; whatever (ICMP and other protocols included)."""

    peers: tuple[PrefixBlock, ...] | None = None
    ports: tuple[PortRange, ...] | None = None


class TrafficProfile(Struct, frozen=True):
    """What may be opened in one direction: what some rule allows, and nothing else."""

    rules: tuple[TrafficRule, ...] = ()


class Veth(Struct, frozen=True):
    """A pod's connection: a veth whose host side is `name`. `addresses`: at most one of each family."""

    name: str
    vni: int
    mac: str
    addresses: tuple[Interface, ...]
    gateways: tuple[Address, ...] = ()
    """Default routes of the pod, at most one of each family."""
    ingress: TrafficProfile | None = None
    """None: everything may come in."""
    egress: TrafficProfile | None = None
    rate_bytes_per_second: int = 0
    """0: no limit."""
    traffic_class: TrafficClass = TrafficClass.EXPEDITED
    pod_interface: str = "eth0"


class RemoteEndpoint(Struct, frozen=True):
    """A network's address that lives on some node."""

    vni: int
    address: Address
    node: IPv4Address


class Subnet(Struct, frozen=True):
    """`bouncers` know all its endpoints; without any, every node that has the network does."""

    vni: int
    prefix: Prefix
    bouncers: tuple[IPv4Address, ...] = ()


class Vpc(Struct, frozen=True):
    """`dividers` know all its subnets; without any, every node that has the network does."""

    vni: int
    prefixes: tuple[Prefix, ...]
    dividers: tuple[IPv4Address, ...] = ()


class ServiceBackend(Struct, frozen=True, order=True):
    address: Address
    port: int


class DataplaneService(Struct, frozen=True):
    vni: int
    address: Address
    """0.0.0.0 or ::, any node's: a node port, as the network's own pods see it."""
    port: int
    protocol: Protocol
    backends: tuple[ServiceBackend, ...]
    affinity_seconds: int = 0


class Gateway(Struct, frozen=True):
    """A network's gateway on this node: a namespace that holds `addresses`, the same on every node."""

    vni: int
    addresses: tuple[Interface, ...]
    node_address: IPv4Address | None = None
    """An address of the network that only this node's gateway has: the world's packets come in as it."""
    egress: bool = False
    """Whether pods may reach the world."""
    node_address6: IPv6Address | None = None
    """As `node_address`, for what comes in by IPv6."""


class NodePort(Struct, frozen=True):
    """A way in: an address and port of the node (or one that is routed to it) is a service's of the same family."""

    vni: int
    address: Address
    port: int
    protocol: Protocol
    service_address: Address
    service_port: int
    keep_client: bool = False
    """The backend sees the client's own address; it must be on this node."""


class DataplaneNetwork(Struct, frozen=True):
    vni: int
    service_prefixes: tuple[Prefix, ...] = ()
    memory_entries: int = 8192
    """How many flows, paths and fragments of it are remembered."""


class DataplaneState(Struct, frozen=True):
    nodes: tuple[IPv4Address, ...] = ()
    """The other nodes. One that is gone is no longer sent to, nor listened to."""
    networks: tuple[DataplaneNetwork, ...] = ()
    vpcs: tuple[Vpc, ...] = ()
    subnets: tuple[Subnet, ...] = ()
    endpoints: tuple[RemoteEndpoint, ...] = ()
    veths: tuple[Veth, ...] = ()
    services: tuple[DataplaneService, ...] = ()
    gateways: tuple[Gateway, ...] = ()
    node_ports: tuple[NodePort, ...] = ()
    forbidden: tuple[Prefix, ...] = ()
    """What no pod may reach, whatever its network allows: the underlay above all."""


class DataplaneSettings(Struct, frozen=True):
    """What is fixed for an instance while it runs. Instances that share an underlay device each have their own
    name, tunnel port and NAT ports."""

    instance: str
    """Names the instance's pins, links and namespaces: 1 to 4 letters and digits, its own on this machine."""
    node: IPv4Address
    underlay: str
    """The device that has the node's address."""
    tunnel_port: int = 4789
    nat_ports: tuple[int, int] = (20000, 29999)
    """Ports of the node's address that pods' connections to the world are given."""
    path_seconds: int = 30
    node6: IPv6Address | None = None
    """The node's IPv6 address. Without one, pods reach the world, and the world them, by IPv4 only."""
    underlay_bytes_per_second: int = 0
    """The underlay's capacity, shared out between the traffic classes; 0: unknown, no shaping."""
