"""The desired entries of a node's maps, by tables."""

from ipaddress import IPv4Address, ip_address, ip_interface, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from alcove.dataplane.address import pack
from alcove.dataplane.desired import (  # fmt: skip
    Entries,
    ObservedKernelState,
    allot_slots,
    bulk_of,
    burst_ns,
    desired,
    endpoint_key,
    gateway_name,
    route_key,
)
from alcove.dataplane.maps import (
    ENDPOINT,
    INDEX,
    MEMORIES_MAX,
    PORT,
    ROUTE,
    ROUTE_SELF,
    EndpointFlag,
    MapName,
    PortFlag,
    RouteKind,
)  # fmt: skip
from alcove.dataplane.model import (  # fmt: skip
    DataplaneNetwork,
    DataplaneService,
    DataplaneState,
    Gateway,
    NodePort,
    PrefixBlock,
    Protocol,
    RemoteEndpoint,
    ServiceBackend,
    Subnet,
    TrafficProfile,
    TrafficRule,
    Veth,
    Vpc,
)

HERE, THERE, ELSEWHERE = (IPv4Address(f"192.168.0.{n}") for n in (1, 2, 3))
VPC = ip_network("10.0.0.0/16")
ONE, TWO = ip_network("10.0.1.0/24"), ip_network("10.0.2.0/24")
PORT_A = Veth("pa", 5, "0e:00:00:00:00:01", (ip_interface("10.0.1.11/24"), ip_interface("fd00::11/64")))
BASE = DataplaneState(
    nodes=(THERE, ELSEWHERE),
    vpcs=(Vpc(5, (VPC,)),),
    subnets=(Subnet(5, ONE), Subnet(5, TWO)),
    veths=(PORT_A,),
)


def entries(state: DataplaneState, node: IPv4Address = HERE, flags: dict[int, int] | None = None) -> Entries:
    links = {"pa": 7, "pb": 8, gateway_name("al", 5): 9}
    found = ObservedKernelState(links, {5: 0, 6: 1}, {THERE: THERE, ELSEWHERE: HERE}, flags or {})
    return desired("al", node, state, found, bulk_of(state, node))


def test_a_port_is_a_port_and_an_endpoint_of_each_address() -> None:
    made = entries(BASE)
    port = PORT.unpack(made[MapName.PORTS][INDEX.pack(7)])
    assert (port["vni"], port["memory"], port["flags"], port["policy_in"]) == (5, 0, 0, 0)
    assert port["address4"] == pack(ip_address("10.0.1.11"))
    for address in ("10.0.1.11", "fd00::11"):
        endpoint = ENDPOINT.unpack(made[MapName.ENDPOINTS][endpoint_key(5, ip_address(address))])
        assert (endpoint["ifindex"], endpoint["flags"]) == (7, EndpointFlag.LOCAL)


def test_a_port_without_a_link_waits() -> None:
    made = entries(replace(BASE, veths=(replace(PORT_A, name="not yet"),)))
    assert made[MapName.PORTS] == {}
    assert made[MapName.ENDPOINTS] == {}


def remote(state: DataplaneState, node: IPv4Address) -> set[str]:
    known = entries(state, node)[MapName.ENDPOINTS]
    return {
        address for address in ("10.0.1.50", "10.0.2.50") if endpoint_key(5, ip_address(address)) in known
    }


ENDPOINTS = (
    RemoteEndpoint(5, ip_address("10.0.1.50"), THERE),
    RemoteEndpoint(5, ip_address("10.0.2.50"), ELSEWHERE),
    RemoteEndpoint(6, ip_address("10.0.1.51"), THERE),
)


@pytest.mark.parametrize(
    ("bouncers", "veths", "known"),
    [
        ((), (PORT_A,), {"10.0.1.50", "10.0.2.50"}),
        ((), (), set()),
        ((THERE,), (PORT_A,), set()),
        ((HERE,), (PORT_A,), {"10.0.1.50"}),
        ((HERE, THERE), (), {"10.0.1.50"}),
    ],
)  # fmt: skip
def test_who_knows_the_endpoints_of_others(
    bouncers: tuple[IPv4Address, ...], veths: tuple[Veth, ...], known: set[str]
) -> None:
    """Without bouncers every node that has the network; with bouncers only they, of their subnet."""
    subnets = (Subnet(5, ONE, bouncers), Subnet(5, TWO, (ELSEWHERE,) if bouncers else ()))
    assert remote(replace(BASE, subnets=subnets, endpoints=ENDPOINTS, veths=veths), HERE) == known


def route(state: DataplaneState, prefix: str, node: IPv4Address = HERE) -> dict[str, object] | None:
    raw = entries(state, node)[MapName.ROUTES].get(route_key(5, ip_network(prefix)))
    return ROUTE.unpack(raw) if raw else None


def test_routes_of_an_ordinary_node_lead_to_who_knows() -> None:
    state = replace(
        BASE,
        vpcs=(Vpc(5, (VPC,), (ELSEWHERE,)),),
        subnets=(Subnet(5, ONE, (THERE,)), Subnet(5, TWO, (THERE,))),
    )
    own = route(state, "10.0.1.0/24")
    assert own is not None
    assert (own["kind"], own["count"], own["flags"]) == (RouteKind.SUBNET, 1, 0)
    assert own["nodes"][:4] == THERE.packed  # type: ignore[index]
    assert route(state, "10.0.2.0/24") is None
    whole = route(state, "10.0.0.0/16")
    assert whole is not None
    assert (whole["kind"], whole["nodes"][:4]) == (RouteKind.VPC, ELSEWHERE.packed)  # type: ignore[index]


def test_a_divider_has_routes_to_every_subnet() -> None:
    state = replace(
        BASE,
        veths=(),
        vpcs=(Vpc(5, (VPC,), (HERE,)),),
        subnets=(Subnet(5, ONE, (THERE,)), Subnet(5, TWO, (HERE,))),
    )
    whole, one, two = (route(state, prefix) for prefix in ("10.0.0.0/16", "10.0.1.0/24", "10.0.2.0/24"))
    assert whole is not None and one is not None and two is not None
    assert (whole["flags"], one["flags"], two["flags"]) == (ROUTE_SELF, 0, ROUTE_SELF)


def test_services_are_held_only_of_networks_that_are_here() -> None:
    services = tuple(
        DataplaneService(
            vni, ip_address("172.20.0.1"), 80, Protocol.TCP, (ServiceBackend(ip_address("10.0.1.11"), 80),)
        )
        for vni in (5, 6)
    )
    made = entries(replace(BASE, services=services))
    assert {key[:4] for key in made[MapName.SERVICES]} == {(5).to_bytes(4, "little")}
    port = PORT.unpack(made[MapName.PORTS][INDEX.pack(7)])
    assert port["flags"] == PortFlag.SERVICES | PortFlag.BACKEND


def test_once_a_backend_always_a_backend() -> None:
    """Its connections outlive its place in the service."""
    port = PORT.unpack(
        entries(BASE, flags={7: PortFlag.BACKEND | PortFlag.SERVICES})[MapName.PORTS][INDEX.pack(7)]
    )
    assert port["flags"] == PortFlag.BACKEND | PortFlag.SERVICES


def test_policies_are_held_while_a_port_has_them() -> None:
    profile = TrafficProfile((TrafficRule((PrefixBlock(ip_network("10.0.0.0/8")),)),))
    made = entries(replace(BASE, veths=(replace(PORT_A, ingress=profile),)))
    port = PORT.unpack(made[MapName.PORTS][INDEX.pack(7)])
    assert port["policy_in"] != 0
    assert port["policy_out"] == 0
    assert made[MapName.POLICY_PEERS]
    assert made[MapName.POLICY_RULES]
    assert not entries(BASE)[MapName.POLICY_PEERS]


def test_a_gateway_is_an_endpoint_and_may_have_egress() -> None:
    gateway = Gateway(5, (ip_interface("10.0.1.1/24"),), IPv4Address("10.0.1.240"))
    made = entries(replace(BASE, gateways=(gateway,)))
    anycast = ENDPOINT.unpack(made[MapName.ENDPOINTS][endpoint_key(5, ip_address("10.0.1.1"))])
    own = ENDPOINT.unpack(made[MapName.ENDPOINTS][endpoint_key(5, ip_address("10.0.1.240"))])
    assert anycast["flags"] == EndpointFlag.LOCAL | EndpointFlag.GATEWAY | EndpointFlag.ANYCAST
    assert own["flags"] == EndpointFlag.LOCAL | EndpointFlag.GATEWAY
    assert route(replace(BASE, gateways=(gateway,)), "0.0.0.0/0") is None
    assert route(replace(BASE, gateways=(replace(gateway, egress=True),)), "0.0.0.0/0") is not None
    kept = NodePort(5, HERE, 30000, Protocol.TCP, IPv4Address("172.20.0.1"), 80, keep_client=True)
    assert route(replace(BASE, gateways=(gateway,), node_ports=(kept,)), "0.0.0.0/0") is not None


def test_service_addresses_lead_nowhere_else() -> None:
    state = replace(BASE, networks=(DataplaneNetwork(5, (ip_network("172.20.0.0/16"),)),))
    found = route(state, "172.20.0.0/16")
    assert found is not None
    assert found["kind"] == RouteKind.SERVICE


def test_nodes_without_a_route_are_left_out() -> None:
    made = entries(replace(BASE, nodes=(THERE, ELSEWHERE, IPv4Address("192.168.9.9"))))
    assert made[MapName.NODES] == {THERE.packed: THERE.packed, ELSEWHERE.packed: HERE.packed}


def test_a_burst_lets_the_largest_packet_pass() -> None:
    assert burst_ns(0) == 0
    assert burst_ns(1_000_000) * 1_000_000 / 1e9 >= 65536
    assert burst_ns(10**9) == 50_000_000


@given(st.dictionaries(st.integers(0, 50), st.integers(0, 2 * MEMORIES_MAX)), st.sets(st.integers(0, 60)))
def test_slots_are_kept_unique_and_possible(held: dict[int, int], wanted: set[int]) -> None:
    slots = allot_slots(held, wanted)
    assert set(slots) == wanted
    assert len(set(slots.values())) == len(slots)
    assert all(slot < MEMORIES_MAX for slot in slots.values())
    honest = {vni: slot for vni, slot in held.items() if slot < MEMORIES_MAX}
    if len(set(honest.values())) == len(honest):
        assert all(slots[vni] == slot for vni, slot in honest.items() if vni in wanted)


def test_what_did_not_change_is_not_computed_again() -> None:
    service = DataplaneService(5, ip_address("172.20.0.1"), 80, Protocol.TCP, ())
    state = replace(BASE, endpoints=ENDPOINTS, services=(service,))
    first = bulk_of(state, HERE)
    other = replace(state, forbidden=(ONE,))
    again = bulk_of(other, HERE, state, first)
    assert again.remote is first.remote
    assert again.services is first.services
    less = replace(state, endpoints=ENDPOINTS[1:])
    assert bulk_of(less, HERE, state, first) == bulk_of(less, HERE)
    gone = replace(state, veths=())
    assert bulk_of(gone, HERE, state, first) == bulk_of(gone, HERE)
