"""The Python mirror of the C structs: the layout of the keys and values of every map, and the maps' names.

`tests/unit/dataplane/test_maps.py` compares each layout with the BTF of the object.
"""

import hashlib
import struct
from collections.abc import Callable
from enum import Enum, IntEnum, IntFlag
from typing import Any

from msgspec import Struct


class StructLayout:
    """A C struct as named fields of struct formats, little-endian and without implicit padding."""

    def __init__(self, c_name: str, **fields: str) -> None:
        self.c_name = c_name
        self.fields = fields
        self.names = tuple(name for name in fields if not name.startswith("pad"))
        self.codec = struct.Struct("<" + "".join(fields.values()))
        self.size = self.codec.size
        # The codec's method directly, without a wrapper: tens of thousands of keys are packed.
        self.pack: Callable[..., bytes] = self.codec.pack

    def unpack(self, raw: bytes) -> dict[str, Any]:
        return dict(zip(self.names, self.codec.unpack(raw), strict=True))

    def offsets(self) -> dict[str, int]:
        offsets, offset = {}, 0
        for name, form in self.fields.items():
            if not name.startswith("pad"):
                offsets[name] = offset
            offset += struct.calcsize("<" + form)
        return offsets


CONFIG = StructLayout(
    "config", node="4s", underlay="I", vxlan="I", exit="I", tunnel_port="2s", nat_low="H", nat_high="H",
    router_mac="6s", exit_mac="6s", path_ticks="H", node6="16s", count_flows="I",
)  # fmt: skip
PORT = StructLayout(
    "port", vni="I", memory="I", mac="6s", flags="H", priority="I", tos="B", pad="3x", ifindex="I", pad2="4x",
    address4="16s", address6="16s", policy_in="Q", policy_out="Q", rate="Q", burst_ns="Q",
)  # fmt: skip
BUCKET = StructLayout("bucket", busy_until_ns="Q")
ENDPOINT_KEY = StructLayout("endpoint_key", vni="I", address="16s")
ENDPOINT = StructLayout(
    "endpoint",
    node="4s",
    ifindex="I",
    mac="6s",
    flags="H",
    memory="I",
    pad="4x",
    policy_in="Q",
    policy_out="Q",
)
NODE = StructLayout("node", next_hop="4s")
ROUTE_KEY = StructLayout("route_key", prefix_bits="I", vni="I", address="16s")
ROUTE = StructLayout(
    "route", kind="B", count="B", flags="B", pad="x", ifindex="I", mac="6s", pad2="2x", nodes="32s"
)  # fmt: skip
FORBIDDEN_KEY = StructLayout("forbidden_key", prefix_bits="I", address="16s")
SERVICE_KEY = StructLayout("service_key", vni="I", address="16s", port="2s", proto="B", pad="x")
SERVICE = StructLayout("service", set="Q", count="I", affinity_ticks="I", flags="I", pad="4x")
BACKEND_KEY = StructLayout("backend_key", set="Q", index="I", pad="4x")
BACKEND = StructLayout("backend", address="16s", port="2s", pad="6x")
MEMBER_KEY = StructLayout("member_key", set="Q", backend="24s")
PEER_KEY = StructLayout("peer_key", prefix_bits="I", profile="Q", address="16s")
RULE_KEY = StructLayout("rule_key", prefix_bits="I", **{"class": "Q"}, proto="B", pad="x", port="2s")
NETWORK_KEY = StructLayout("network_key", vni="I")
NODE_PORT_KEY = StructLayout("door_key", address="16s", port="2s", proto="B", pad="x")
TUPLE = StructLayout(
    "tuple", source="16s", target="16s", sport="2s", dport="2s", proto="B", kind="B", pad="2x"
)
FLOW = StructLayout(
    "flow", peer="16s", peer_port="2s", own_port="2s", tick="I", flags="I", node="4s", first="Q", second="Q"
)
TRACK = StructLayout(
    "track", bytes_out="Q", bytes_back="Q", packets_out="I", tick="I", flags="B", tcp_flags="B", start="H",
    packets_back="I", out="Q", **{"in": "Q"},
)  # fmt: skip
OPENING = StructLayout("opening", key="40s", tick="I", number="I")
DROP_COUNT = StructLayout("drop_count", packets="Q", bytes="Q")
DROPPED = StructLayout("dropped", packets="Q", bytes="Q", policy="Q", start="I", tick="I")
METER = StructLayout(
    "meter", network_out="Q", network_in="Q", world_out="Q", world_in="Q", node_port_out="Q", node_port_in="Q",
    balancer_out="Q", balancer_in="Q",
)  # fmt: skip
INDEX = StructLayout("", index="I")
WORD = StructLayout("", word="I")
CLASS = StructLayout("", named="Q")

LAYOUTS = (
    CONFIG, PORT, BUCKET, ENDPOINT_KEY, ENDPOINT, NODE, ROUTE_KEY, ROUTE, FORBIDDEN_KEY, SERVICE_KEY, SERVICE,
    BACKEND_KEY, BACKEND, MEMBER_KEY, PEER_KEY, RULE_KEY, NETWORK_KEY, NODE_PORT_KEY, TUPLE, FLOW, TRACK, OPENING,
    DROP_COUNT, DROPPED, METER,
)  # fmt: skip


class PortFlag(IntFlag):
    GATEWAY = 0x1
    BACKEND = 0x2
    SERVICES = 0x4


class EndpointFlag(IntFlag):
    LOCAL = 0x1
    ANYCAST = 0x2
    SERVICES = 0x4
    GATEWAY = 0x8


class RouteKind(IntEnum):
    NONE = 0
    SUBNET = 1
    VPC = 2
    WORLD = 3
    SERVICE = 4


class FlowKind(IntEnum):
    NONE = 0
    FORWARD = 1
    REVERSE = 2
    TRACK = 3
    FRAGMENT = 4
    AFFINITY = 5
    PATH = 6


class FlowFlag(IntFlag):
    SWAPPED = 0x1
    EXEMPT = 0x2
    HAIRPIN = 0x4
    CLOSED = 0x8
    GUESSED = 0x10


class PathTaken(IntEnum):
    """The paths of packets, as counted in the map `paths`."""

    LOCAL = 0
    DIRECT = 1
    LEARNED = 2
    BOUNCER = 3
    DIVIDER = 4
    RELAYED = 5
    FALLBACK = 6
    GATEWAY = 7
    FROM_TUNNEL = 8


ROUTE_SELF = 0x1
ROUTE_NODES_MAX = 8
SERVICE_DIRECT = 0x1


class MapName(Enum):
    """Maps of the desired state, in the order in which entries must be added, so that no entry refers to a
    missing one. Entries are removed in the reverse order."""

    NODES = "nodes"
    FORBIDDEN = "forbidden"
    NETWORKS = "networks"
    MEMBERS = "members"
    BACKENDS = "backends"
    SERVICES = "services"
    POLICY_RULES = "policy_rules"
    POLICY_PEERS = "policy_peers"
    BUCKETS = "buckets"
    PORTS = "ports"
    ENDPOINTS = "endpoints"
    ROUTES = "routes"
    DOORS = "doors"


class MapShape(Struct, frozen=True):
    key: StructLayout
    value: StructLayout
    is_array: bool = False
    """All elements of an array always exist; one that is all zeros counts as missing."""


SHAPES: dict[MapName, MapShape] = {
    MapName.NODES: MapShape(StructLayout("", address="4s"), NODE),
    MapName.FORBIDDEN: MapShape(FORBIDDEN_KEY, WORD),
    MapName.NETWORKS: MapShape(NETWORK_KEY, WORD),
    MapName.MEMBERS: MapShape(MEMBER_KEY, WORD),
    MapName.BACKENDS: MapShape(BACKEND_KEY, BACKEND),
    MapName.SERVICES: MapShape(SERVICE_KEY, SERVICE),
    MapName.POLICY_RULES: MapShape(RULE_KEY, WORD),
    MapName.POLICY_PEERS: MapShape(PEER_KEY, CLASS),
    MapName.BUCKETS: MapShape(INDEX, BUCKET),
    MapName.PORTS: MapShape(INDEX, PORT, is_array=True),
    MapName.ENDPOINTS: MapShape(ENDPOINT_KEY, ENDPOINT),
    MapName.ROUTES: MapShape(ROUTE_KEY, ROUTE),
    MapName.DOORS: MapShape(NODE_PORT_KEY, WORD),
}


def layout_version() -> str:
    """A digest of all layouts. Only programs with the same layout version share maps."""
    content = repr([(layout.c_name, layout.fields) for layout in LAYOUTS] + [name.value for name in MapName])
    return hashlib.blake2b(content.encode(), digest_size=4).hexdigest()


VETH_SLOTS = 16384


def port_key(ifindex: int) -> bytes:
    """The key of a link in the map of ports. Links whose indexes differ by a multiple of VETH_SLOTS have the
    same key: only one of them can be a port."""
    return INDEX.pack(ifindex % VETH_SLOTS)


MEMORIES = "memories"
DROP_TABLES = "drop_tables"
OPENING_RINGS, OPENING_COUNTS = "opening_rings", "opening_counts"
OPENINGS_MAX = 8192
"""Connections of one network that its ring holds on a node, in the order in which they were opened; see bpf/lib/opening.h."""
METERS = "meters"
DOOR_BALANCER, DOOR_SLOT_SHIFT = 0x1, 1
MEMORIES_MAX = 4096
