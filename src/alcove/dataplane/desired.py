"""The desired entries of the BPF maps: a pure function of the desired state and the observed kernel state.

The observed state is needed for what must not change under a running network: the memory slot of each network
and the index of each link.
"""

import errno
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from msgspec import Struct

from alcove.api.destinations import UNREACHABLE
from alcove.dataplane.address import NO_ADDRESS, Address, Prefix, pack, pack_mac, pack_prefix
from alcove.dataplane.errors import MapFull
from alcove.dataplane.maps import (  # fmt: skip
    BUCKET,
    DOOR_BALANCER,
    DOOR_SLOT_SHIFT,
    ENDPOINT,
    ENDPOINT_KEY,
    FORBIDDEN_KEY,
    INDEX,
    MEMORIES,
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
DATAPLANE6 = IPv6Network("fd00:a1c0::/32")
"""IPv6 addresses used by the data plane itself: for uplinks, and for pods that are their own backends."""
BURST_SECONDS = 0.05
BURST_BYTES_MIN = 2 * 65536
"""Packets may have up to 64 KiB (GSO): a smaller burst would let none pass."""

HTB_MAJOR = 0xA1C0 << 16
PRIORITY = {one: HTB_MAJOR | (one + 1) * 0x10 for one in TrafficClass}
"""The class in the underlay's shaper (`shaping.py`); without a shaper Linux ignores it."""
TOS = {TrafficClass.PREMIUM: 46 << 2, TrafficClass.EXPEDITED: 18 << 2, TrafficClass.BEST_EFFORT: 8 << 2}
"""DSCP EF, AF21 and CS1, for the switches between the nodes."""


class ObservedKernelState(Struct, frozen=True):
    links: Mapping[str, int]
    """The index of each existing link, by name."""
    slots: Mapping[int, int]
    """The memory slot of each VNI."""
    next_hops: Mapping[IPv4Address, IPv4Address]
    """The next hop to each reachable node."""
    flags: Mapping[int, int] = {}
    """The current flags of each port, by index. A port that was a backend of a service may still have its
    connections, so it keeps that flag as long as it exists."""


def gateway_name(instance: str, vni: int) -> str:
    return f"{instance}g{vni:x}"


def gateway_mac(vni: int) -> str:
    """The same on every node, like the gateway's address; it is never sent to other nodes."""
    return f"06:00:00:{vni >> 16 & 255:02x}:{vni >> 8 & 255:02x}:{vni & 255:02x}"


def allot_slots(held: Mapping[int, int], vnis: Iterable[int]) -> dict[int, int]:
    """A memory slot for each VNI: its current one, or the lowest free one. Raises MapFull."""
    sorted_vnis = sorted(set(vnis))
    slots: dict[int, int] = {}
    used: set[int] = set()
    for vni in sorted_vnis:
        # Skip invalid slots that were read from the kernel: out of range, or used by two networks.
        if vni in held and held[vni] < MEMORIES_MAX and held[vni] not in used:
            slots[vni] = held[vni]
            used.add(held[vni])
    free = (slot for slot in range(MEMORIES_MAX) if slot not in used)
    for vni in sorted_vnis:
        if vni not in slots:
            slot = next(free, None)
            if slot is None:
                raise MapFull(MEMORIES, errno.ENOSPC)
            slots[vni] = slot
    return slots


def present_vnis(state: DataplaneState) -> set[int]:
    """Networks that have veths or a gateway on this node."""
    return {veth.vni for veth in state.veths} | {gateway.vni for gateway in state.gateways}


def serving_vnis(state: DataplaneState, node: IPv4Address) -> set[int]:
    """Networks for which this node is a bouncer or divider."""
    return {subnet.vni for subnet in state.subnets if node in subnet.bouncers} | {
        vpc.vni for vpc in state.vpcs if node in vpc.dividers
    }


def desired_vnis(state: DataplaneState, node: IPv4Address) -> set[int]:
    return present_vnis(state) | serving_vnis(state, node)


class BulkEntries(Struct, frozen=True):
    """The parts of the desired entries that may be large: services, and the endpoints of bouncers."""

    services: CompiledServices
    remote: dict[bytes, bytes]


NO_BULK = BulkEntries(compile_services(()), {})


def bulk_of(
    state: DataplaneState,
    node: IPv4Address,
    before: DataplaneState | None = None,
    cached: BulkEntries = NO_BULK,
) -> BulkEntries:
    """`cached` is the result for the state `before`; unchanged parts of it are reused."""
    present = present_vnis(state)
    is_same_presence = before is not None and present_vnis(before) == present
    services, remote = cached.services, cached.remote
    if not (is_same_presence and before is not None and before.services is state.services):
        services = compile_services(service for service in state.services if service.vni in present)
    if not (
        is_same_presence
        and before is not None
        and before.endpoints is state.endpoints
        and before.subnets is state.subnets
    ):
        remote = _remote_endpoints(state, node, present)
    return BulkEntries(services, remote)


def desired(
    instance: str,
    node: IPv4Address,
    state: DataplaneState,
    observed: ObservedKernelState,
    bulk: BulkEntries,
    node6: IPv6Address | None = None,
) -> Entries:
    """The desired entries of all maps. `bulk` is `bulk_of(state, node)`; `node6` is the node's IPv6 address,
    if any."""
    entries: Entries = {name: {} for name in MapName}
    present = present_vnis(state)
    services = bulk.services
    entries[MapName.ENDPOINTS] = dict(bulk.remote)
    entries[MapName.SERVICES] = services.services
    entries[MapName.BACKENDS] = services.backends
    entries[MapName.MEMBERS] = services.members
    for vni in desired_vnis(state, node):
        entries[MapName.NETWORKS][NETWORK_KEY.pack(vni)] = WORD.pack(observed.slots[vni])
    _add_nodes(entries, state, observed)
    _add_routes(entries, state, node, present)
    for network in state.networks:
        if network.vni in present:
            _add_service_routes(entries, network)
    for veth in state.veths:
        if veth.name in observed.links:
            index = observed.links[veth.name]
            add_port(entries, veth, index, observed.slots[veth.vni], services, observed.flags.get(index, 0))
    keep_client_vnis = {node_port.vni for node_port in state.node_ports if node_port.keep_client}
    for gateway in state.gateways:
        name = gateway_name(instance, gateway.vni)
        if name in observed.links:
            slot, keep_client = observed.slots[gateway.vni], gateway.vni in keep_client_vnis
            add_gateway(
                entries,
                gateway,
                observed.links[name],
                slot,
                services,
                answers_world=keep_client,
                six=node6 is not None,
            )
    for prefix in (*state.forbidden, *UNREACHABLE, DATAPLANE6):
        entries[MapName.FORBIDDEN][FORBIDDEN_KEY.pack(*pack_prefix(prefix))] = PRESENT
    for node_port in state.node_ports:
        key = NODE_PORT_KEY.pack(
            pack(node_port.address), node_port.port.to_bytes(2, "big"), node_port.protocol
        )
        slot = observed.slots.get(node_port.vni, MEMORIES_MAX)
        is_balancer = node_port.address not in (node, node6)
        entries[MapName.DOORS][key] = WORD.pack(slot << DOOR_SLOT_SHIFT | DOOR_BALANCER * is_balancer)
    return entries


def _add_nodes(entries: Entries, state: DataplaneState, observed: ObservedKernelState) -> None:
    for address in state.nodes:
        if address in observed.next_hops:
            entries[MapName.NODES][address.packed] = NODE.pack(observed.next_hops[address].packed)


def _remote_endpoints(state: DataplaneState, node: IPv4Address, present: set[int]) -> dict[bytes, bytes]:
    """Remote endpoints of subnets for which this node is a bouncer, or which have no bouncers."""
    subnets_by_vni: dict[int, list[Subnet]] = {}
    for subnet in state.subnets:
        if _needs_endpoints(subnet, node, present):
            subnets_by_vni.setdefault(subnet.vni, []).append(subnet)
    values = {endpoint.node: remote_endpoint(endpoint.node) for endpoint in state.endpoints}
    return {
        endpoint_key(one.vni, one.address): values[one.node]
        for one in state.endpoints
        if one.node != node
        and any(one.address in subnet.prefix for subnet in subnets_by_vni.get(one.vni, ()))
    }


def _needs_endpoints(subnet: Subnet, node: IPv4Address, present: set[int]) -> bool:
    return node in subnet.bouncers or (not subnet.bouncers and subnet.vni in present)


def endpoint_key(vni: int, address: Address) -> bytes:
    return ENDPOINT_KEY.pack(vni, pack(address))


def remote_endpoint(node: IPv4Address) -> bytes:
    return ENDPOINT.pack(node.packed, 0, NO_MAC, 0, 0, 0, 0)


def _add_routes(entries: Entries, state: DataplaneState, node: IPv4Address, present: set[int]) -> None:
    """Routes of subnets in which this node has veths or is a bouncer; a divider has all subnets of its VPCs.
    Packets to other subnets are sent to a divider."""
    involved = present | serving_vnis(state, node)
    divided_vnis = {vpc.vni for vpc in state.vpcs if node in vpc.dividers or not vpc.dividers} & involved
    local: dict[int, list[Address]] = {}
    for veth in state.veths:
        local.setdefault(veth.vni, []).extend(one.ip for one in veth.addresses)
    routes = entries[MapName.ROUTES]
    for vpc in state.vpcs:
        if vpc.vni in present or node in vpc.dividers:
            value = _route(RouteKind.VPC, vpc.dividers, vpc.vni in divided_vnis, node)
            routes.update({route_key(vpc.vni, prefix): value for prefix in vpc.prefixes})
    for subnet in state.subnets:
        bounces = node in subnet.bouncers
        has_port = any(address in subnet.prefix for address in local.get(subnet.vni, ()))
        if bounces or has_port or subnet.vni in divided_vnis:
            is_self = bounces or not subnet.bouncers
            value = _route(RouteKind.SUBNET, subnet.bouncers, is_self, node)
            routes[route_key(subnet.vni, subnet.prefix)] = value


def route_key(vni: int, prefix: Prefix) -> bytes:
    bits, raw = pack_prefix(prefix)
    return ROUTE_KEY.pack(VNI_BITS + bits, vni, raw)


def _route(kind: RouteKind, nodes: tuple[IPv4Address, ...], is_self: bool, node: IPv4Address) -> bytes:
    """A route to the bouncers or dividers; ROUTE_SELF if this node has the information itself."""
    others = [one for one in nodes if one != node][:ROUTE_NODES_MAX]
    packed = b"".join(one.packed for one in others).ljust(4 * ROUTE_NODES_MAX, b"\0")
    return ROUTE.pack(kind, len(others), ROUTE_SELF if is_self else 0, 0, NO_MAC, packed)


def _add_service_routes(entries: Entries, network: DataplaneNetwork) -> None:
    for prefix in network.service_prefixes:
        value = ROUTE.pack(RouteKind.SERVICE, 0, 0, 0, NO_MAC, b"")
        entries[MapName.ROUTES][route_key(network.vni, prefix)] = value


def _policy(entries: Entries, profile: TrafficProfile | None) -> int:
    """Adds the profile's entries and returns its name; 0 if there is no policy."""
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
    entries: Entries, veth: Veth, index: int, slot: int, services: CompiledServices, previous_flags: int = 0
) -> None:
    """Adds the entries of one veth: all that has to be written when a pod starts."""
    policy_in, policy_out = _policy(entries, veth.ingress), _policy(entries, veth.egress)
    has_services = veth.vni in services.vnis or bool(previous_flags & PortFlag.SERVICES)
    answers = any((veth.vni, one.ip) in services.answering for one in veth.addresses)
    flags = (PortFlag.SERVICES if has_services else 0) | (PortFlag.BACKEND if answers else 0)
    flags |= previous_flags & PortFlag.BACKEND
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
    """`answers_world`: pods see the addresses of external clients and reply to them, so there is a default
    route even without egress, and the gateway's rules reject new connections. `six`: external IPv6 is
    available."""
    mac = pack_mac(gateway_mac(gateway.vni))
    has_services = gateway.vni in services.vnis
    flags = PortFlag.GATEWAY | (PortFlag.SERVICES | PortFlag.BACKEND if has_services else 0)
    first_by_version: dict[int, Address] = {}
    for one in gateway.addresses:
        first_by_version.setdefault(one.version, one.ip)
    first4, first6 = (
        pack(first_by_version[version]) if version in first_by_version else NO_ADDRESS for version in (4, 6)
    )
    entries[MapName.PORTS][port_key(index)] = PORT.pack(
        gateway.vni, slot, mac, flags, PRIORITY[TrafficClass.PREMIUM], TOS[TrafficClass.PREMIUM], index, first4,
        first6, 0, 0, 0, 0,
    )  # fmt: skip
    common = EndpointFlag.LOCAL | EndpointFlag.GATEWAY | (EndpointFlag.SERVICES if has_services else 0)
    anycast = ENDPOINT.pack(NO_NODE, index, mac, common | EndpointFlag.ANYCAST, slot, 0, 0)
    for one in gateway.addresses:
        entries[MapName.ENDPOINTS][endpoint_key(gateway.vni, one.ip)] = anycast
    for node_address in (gateway.node_address, gateway.node_address6):
        if node_address is not None:
            value = ENDPOINT.pack(NO_NODE, index, mac, common, slot, 0, 0)
            entries[MapName.ENDPOINTS][endpoint_key(gateway.vni, node_address)] = value
    if gateway.egress or answers_world:
        value = ROUTE.pack(RouteKind.WORLD, 0, 0, index, mac, b"")
        # `::/0` also covers IPv4, which is mapped into IPv6; so either both or only IPv4.
        for prefix in (EVERYWHERE, EVERYWHERE6) if six else (EVERYWHERE,):
            entries[MapName.ROUTES][route_key(gateway.vni, prefix)] = value
