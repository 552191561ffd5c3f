"""What the kernel's maps should hold: a pure function of the world, of what was allotted, and of the
links there are.

Two things are not in the world but must not change under a running network, so they come in as found:
which memory slot a network has, and which index the kernel gave a link.
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from msgspec import Struct

from alcove.dataplane.address import NO_ADDRESS, Address, Prefix, pack, pack_mac, pack_prefix
from alcove.dataplane.maps import (  # fmt: skip
    BUCKET,
    ENDPOINT,
    ENDPOINT_KEY,
    FORBIDDEN_KEY,
    INDEX,
    MEMORIES_MAX,
    NETWORK_KEY,
    NODE,
    NODE_PORT_KEY,
    PORT,
    ROUTE,
    ROUTE_KEY,
    ROUTE_NODES_MAX,
    ROUTE_SELF,
    WORD,
    EndpointFlag,
    MapName,
    PortFlag,
    RouteKind,
    port_key,
)
from alcove.dataplane.model import (
    DataplaneNetwork,
    DataplaneState,
    Gateway,
    Subnet,
    TrafficClass,
    TrafficProfile,
    Veth,
)
from alcove.dataplane.policies import compile_profile
from alcove.dataplane.services import CompiledServices, compile_services

Entries = dict[MapName, dict[bytes, bytes]]
VNI_BITS = 32
NO_NODE = b"\0\0\0\0"
NO_MAC = b"\0" * 6
PRESENT = WORD.pack(1)
EVERYWHERE, EVERYWHERE6 = IPv4Network("0.0.0.0/0"), IPv6Network("::/0")
OWN6 = IPv6Network("fd00:a1c0::/32")
"""The data plane's own IPv6 addresses: of uplinks, and of pods that are their own backends."""
NOBODYS: tuple[Prefix, ...] = (
    IPv4Network("169.254.0.0/16"), IPv4Network("127.0.0.0/8"), IPv6Network("fe80::/10"), IPv6Network("::/96"), OWN6,
)  # fmt: skip
"""Never a pod's to reach in the world: cloud metadata services live there, and the node's own loopback."""

BURST_SECONDS = 0.05
BURST_BYTES_MIN = 2 * 65536
"""Packets arrive in pieces of up to 64 KiB: a smaller burst would pass none."""

HTB_MAJOR = 0xA1C0 << 16
PRIORITY = {one: HTB_MAJOR | (one + 1) * 0x10 for one in TrafficClass}
"""As the class of the underlay's shaper (`shaping.py`); without one, Linux ignores it."""
TOS = {TrafficClass.PREMIUM: 46 << 2, TrafficClass.EXPEDITED: 18 << 2, TrafficClass.BEST_EFFORT: 8 << 2}
"""DSCP EF, AF21 and CS1, for the switches between the nodes."""


class ObservedKernelState(Struct, frozen=True):
    links: Mapping[str, int]
    """Index of each port's link, by the port's name; ports without one are left out."""
    slots: Mapping[int, int]
    """Memory slot of each VNI."""
    next_hops: Mapping[IPv4Address, IPv4Address]
    """The way to each node; nodes without one are left out."""
    flags: Mapping[int, int] = {}
    """Each port's flags as they are, by index. One that once answered for a service may still have
    connections of it: it keeps saying so as long as it lives."""


def gateway_name(instance: str, vni: int) -> str:
    return f"{instance}g{vni:x}"


def gateway_mac(vni: int) -> str:
    """The same on every node, as the address is; it never leaves the node."""
    return f"06:00:00:{vni >> 16 & 255:02x}:{vni >> 8 & 255:02x}:{vni & 255:02x}"


def allot_slots(held: Mapping[int, int], vnis: Iterable[int]) -> dict[int, int]:
    """A memory slot for each VNI: the one it has, or the lowest free one."""
    wanted = sorted(set(vnis))
    slots: dict[int, int] = {}
    used: set[int] = set()
    for vni in wanted:
        # What was found may have drifted: a slot that cannot be, or that two networks claim.
        if vni in held and held[vni] < MEMORIES_MAX and held[vni] not in used:
            slots[vni] = held[vni]
            used.add(held[vni])
    free = (slot for slot in range(MEMORIES_MAX) if slot not in used)
    for vni in wanted:
        if vni not in slots:
            slots[vni] = next(free)
    return slots


def present_vnis(state: DataplaneState) -> set[int]:
    """Networks that have something on this node."""
    return {veth.vni for veth in state.veths} | {gateway.vni for gateway in state.gateways}


def serving_vnis(state: DataplaneState, node: IPv4Address) -> set[int]:
    """Networks that this node bounces or divides for others."""
    return {subnet.vni for subnet in state.subnets if node in subnet.bouncers} | {
        vpc.vni for vpc in state.vpcs if node in vpc.dividers
    }


def desired_vnis(state: DataplaneState, node: IPv4Address) -> set[int]:
    return present_vnis(state) | serving_vnis(state, node)


class BulkEntries(Struct, frozen=True):
    """The parts of the desired state that may be large: many services, and the endpoints a bouncer knows."""

    services: CompiledServices
    remote: dict[bytes, bytes]


NO_BULK = BulkEntries(compile_services(()), {})


def bulk_of(
    state: DataplaneState,
    node: IPv4Address,
    before: DataplaneState | None = None,
    kept: BulkEntries = NO_BULK,
) -> BulkEntries:
    """`kept` is what came out for the world `before`; what has not changed since is not computed again."""
    here = present_vnis(state)
    same_place = before is not None and present_vnis(before) == here
    services, remote = kept.services, kept.remote
    if not (same_place and before is not None and before.services is state.services):
        services = compile_services(service for service in state.services if service.vni in here)
    if not (
        same_place
        and before is not None
        and before.endpoints is state.endpoints
        and before.subnets is state.subnets
    ):
        remote = _remote_endpoints(state, node, here)
    return BulkEntries(services, remote)


def desired(
    instance: str,
    node: IPv4Address,
    state: DataplaneState,
    found: ObservedKernelState,
    bulk: BulkEntries,
    node6: IPv6Address | None = None,
) -> Entries:
    """`bulk` is `bulk_of(world, node)`. `node6`: the node's other address, if it has one."""
    entries: Entries = {name: {} for name in MapName}
    here = present_vnis(state)
    services = bulk.services
    entries[MapName.ENDPOINTS] = dict(bulk.remote)
    entries[MapName.SERVICES] = services.services
    entries[MapName.BACKENDS] = services.backends
    entries[MapName.MEMBERS] = services.members
    for vni in desired_vnis(state, node):
        entries[MapName.NETWORKS][NETWORK_KEY.pack(vni)] = WORD.pack(found.slots[vni])
    _add_nodes(entries, state, found)
    _add_routes(entries, state, node, here)
    for network in state.networks:
        if network.vni in here:
            _add_service_routes(entries, network)
    for veth in state.veths:
        if veth.name in found.links:
            index = found.links[veth.name]
            add_port(entries, veth, index, found.slots[veth.vni], services, found.flags.get(index, 0))
    keeping = {node_port.vni for node_port in state.node_ports if node_port.keep_client}
    for gateway in state.gateways:
        name = gateway_name(instance, gateway.vni)
        if name in found.links:
            slot, kept = found.slots[gateway.vni], gateway.vni in keeping
            add_gateway(
                entries, gateway, found.links[name], slot, services, answers_world=kept, six=node6 is not None
            )
    for prefix in (*state.forbidden, *NOBODYS):
        entries[MapName.FORBIDDEN][FORBIDDEN_KEY.pack(*pack_prefix(prefix))] = PRESENT
    for node_port in state.node_ports:
        key = NODE_PORT_KEY.pack(
            pack(node_port.address), node_port.port.to_bytes(2, "big"), node_port.protocol
        )
        entries[MapName.DOORS][key] = PRESENT
    return entries


def _add_nodes(entries: Entries, state: DataplaneState, found: ObservedKernelState) -> None:
    for address in state.nodes:
        if address in found.next_hops:
            entries[MapName.NODES][address.packed] = NODE.pack(found.next_hops[address].packed)


def _remote_endpoints(state: DataplaneState, node: IPv4Address, here: set[int]) -> dict[bytes, bytes]:
    """Those of subnets this node bounces, or that have no bouncers at all."""
    known: dict[int, list[Subnet]] = {}
    for subnet in state.subnets:
        if _knows_endpoints(subnet, node, here):
            known.setdefault(subnet.vni, []).append(subnet)
    values = {endpoint.node: remote_endpoint(endpoint.node) for endpoint in state.endpoints}
    return {
        endpoint_key(one.vni, one.address): values[one.node]
        for one in state.endpoints
        if one.node != node and any(one.address in subnet.prefix for subnet in known.get(one.vni, ()))
    }


def _knows_endpoints(subnet: Subnet, node: IPv4Address, here: set[int]) -> bool:
    return node in subnet.bouncers or (not subnet.bouncers and subnet.vni in here)


def endpoint_key(vni: int, address: Address) -> bytes:
    return ENDPOINT_KEY.pack(vni, pack(address))


def remote_endpoint(node: IPv4Address) -> bytes:
    return ENDPOINT.pack(node.packed, 0, NO_MAC, 0, 0, 0, 0)


def _add_routes(entries: Entries, state: DataplaneState, node: IPv4Address, here: set[int]) -> None:
    """A node knows the subnets it has ports in or bounces; dividers know all. The rest is asked for."""
    everywhere = here | serving_vnis(state, node)
    dividing = {vpc.vni for vpc in state.vpcs if node in vpc.dividers or not vpc.dividers} & everywhere
    local: dict[int, list[Address]] = {}
    for veth in state.veths:
        local.setdefault(veth.vni, []).extend(one.ip for one in veth.addresses)
    routes = entries[MapName.ROUTES]
    for vpc in state.vpcs:
        if vpc.vni in here or node in vpc.dividers:
            value = _asked_route(RouteKind.VPC, vpc.dividers, vpc.vni in dividing, node)
            routes.update({route_key(vpc.vni, prefix): value for prefix in vpc.prefixes})
    for subnet in state.subnets:
        bounces = node in subnet.bouncers
        has_port = any(address in subnet.prefix for address in local.get(subnet.vni, ()))
        if bounces or has_port or subnet.vni in dividing:
            knows = bounces or not subnet.bouncers
            value = _asked_route(RouteKind.SUBNET, subnet.bouncers, knows, node)
            routes[route_key(subnet.vni, subnet.prefix)] = value


def route_key(vni: int, prefix: Prefix) -> bytes:
    bits, raw = pack_prefix(prefix)
    return ROUTE_KEY.pack(VNI_BITS + bits, vni, raw)


def _asked_route(kind: RouteKind, asked: tuple[IPv4Address, ...], knows: bool, node: IPv4Address) -> bytes:
    """Whom to ask; if this node itself knows, there is nobody better."""
    others = [one for one in asked if one != node][:ROUTE_NODES_MAX]
    packed = b"".join(one.packed for one in others).ljust(4 * ROUTE_NODES_MAX, b"\0")
    return ROUTE.pack(kind, len(others), ROUTE_SELF if knows else 0, 0, NO_MAC, packed)


def _add_service_routes(entries: Entries, network: DataplaneNetwork) -> None:
    for prefix in network.service_prefixes:
        value = ROUTE.pack(RouteKind.SERVICE, 0, 0, 0, NO_MAC, b"")
        entries[MapName.ROUTES][route_key(network.vni, prefix)] = value


def _policy(entries: Entries, profile: TrafficProfile | None) -> int:
    """The profile's name, its entries added; 0: no policy."""
    if profile is None:
        return 0
    compiled = compile_profile(profile)
    entries[MapName.POLICY_RULES].update(compiled.rules)
    entries[MapName.POLICY_PEERS].update(compiled.peers)
    return compiled.name


def address_of(veth: Veth, version: int) -> bytes:
    for one in veth.addresses:
        if one.version == version:
            return pack(one.ip)
    return NO_ADDRESS


def burst_ns(rate: int) -> int:
    burst_bytes = max(BURST_BYTES_MIN, rate * BURST_SECONDS)
    return int(burst_bytes * 1e9 / rate) if rate else 0


def add_port(
    entries: Entries, veth: Veth, index: int, slot: int, services: CompiledServices, flags_before: int = 0
) -> None:
    """A port's own entries; all that has to be written when a pod starts."""
    policy_in, policy_out = _policy(entries, veth.ingress), _policy(entries, veth.egress)
    has_services = veth.vni in services.vnis or bool(flags_before & PortFlag.SERVICES)
    answers = any((veth.vni, one.ip) in services.answering for one in veth.addresses)
    flags = (PortFlag.SERVICES if has_services else 0) | (PortFlag.BACKEND if answers else 0)
    flags |= flags_before & PortFlag.BACKEND
    rate = veth.rate_bytes_per_second
    mac = pack_mac(veth.mac)
    entries[MapName.PORTS][port_key(index)] = PORT.pack(
        veth.vni, slot, mac, flags, PRIORITY[veth.traffic_class], TOS[veth.traffic_class], index,
        address_of(veth, 4), address_of(veth, 6), policy_in, policy_out, rate, burst_ns(rate),
    )  # fmt: skip
    if rate:
        entries[MapName.BUCKETS][INDEX.pack(index)] = BUCKET.pack(0)
    endpoint_flags = EndpointFlag.LOCAL | (EndpointFlag.SERVICES if has_services else 0)
    value = ENDPOINT.pack(NO_NODE, index, mac, endpoint_flags, slot, policy_in, policy_out)
    for one in veth.addresses:
        entries[MapName.ENDPOINTS][endpoint_key(veth.vni, one.ip)] = value


def add_gateway(
    entries: Entries,
    gateway: Gateway,
    index: int,
    slot: int,
    services: CompiledServices,
    *,
    answers_world: bool,
    six: bool,
) -> None:
    """`answers_world`: pods see clients of the world by their own addresses, and answer them. What they may
    open is then the gateway's own to refuse. `six`: the world is also there by IPv6."""
    mac = pack_mac(gateway_mac(gateway.vni))
    has_services = gateway.vni in services.vnis
    flags = PortFlag.GATEWAY | (PortFlag.SERVICES | PortFlag.BACKEND if has_services else 0)
    own: dict[int, Address] = {}
    for one in gateway.addresses:
        own.setdefault(one.version, one.ip)
    first4, first6 = (pack(own[version]) if version in own else NO_ADDRESS for version in (4, 6))
    entries[MapName.PORTS][port_key(index)] = PORT.pack(
        gateway.vni, slot, mac, flags, PRIORITY[TrafficClass.PREMIUM], TOS[TrafficClass.PREMIUM], index, first4,
        first6, 0, 0, 0, 0,
    )  # fmt: skip
    common = EndpointFlag.LOCAL | (EndpointFlag.SERVICES if has_services else 0)
    anycast = ENDPOINT.pack(NO_NODE, index, mac, common | EndpointFlag.ANYCAST, slot, 0, 0)
    for one in gateway.addresses:
        entries[MapName.ENDPOINTS][endpoint_key(gateway.vni, one.ip)] = anycast
    for own_address in (gateway.node_address, gateway.node_address6):
        if own_address is not None:
            value = ENDPOINT.pack(NO_NODE, index, mac, common, slot, 0, 0)
            entries[MapName.ENDPOINTS][endpoint_key(gateway.vni, own_address)] = value
    if gateway.egress or answers_world:
        world = ROUTE.pack(RouteKind.WORLD, 0, 0, index, mac, b"")
        # Both or the first: IPv4, being mapped, is a part of all IPv6.
        for prefix in (EVERYWHERE, EVERYWHERE6) if six else (EVERYWHERE,):
            entries[MapName.ROUTES][route_key(gateway.vni, prefix)] = world
