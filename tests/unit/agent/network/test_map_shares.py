"""A tenant that wants more of the kernel's maps than its share loses its own, and nobody else does."""

from ipaddress import IPv4Address, ip_network

import pytest

from alcove.agent.network import map_shares
from alcove.agent.network.map_shares import (
    TOO_MANY_NETWORKS,
    NetworkLosses,
    PolicyShares,
    share_endpoints,
    share_networks,
)
from alcove.agent.network.policies import DENIED
from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.agent.shares import Pool
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME, TenantKey
from alcove.dataplane.desired import allot_slots
from alcove.dataplane.errors import DataPlaneError
from alcove.dataplane.maps import MEMORIES_MAX
from alcove.dataplane.model import (
    DataplaneState,
    PrefixBlock,
    RemoteEndpoint,
    Subnet,
    TrafficProfile,
    TrafficRule,
    Veth,
    Vpc,
)
from alcove.network.owners import TenantNetworkId

GREEDY, QUIET = TenantId("greedy"), TenantId("quiet")
TENANTS = {1: GREEDY, 2: QUIET}


def profile(first: int, count: int) -> TrafficProfile:
    blocks = tuple(PrefixBlock(ip_network((first + n << 8, 24))) for n in range(count))
    return TrafficProfile((TrafficRule(blocks),))


def veth(name: str, vni: int, ingress: TrafficProfile | None) -> Veth:
    return Veth(name, vni, "02:00:00:00:00:02", (), ingress=ingress)


def test_pods_with_too_many_rules_are_denied_and_others_keep_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_shares, "POLICY_PEERS", Pool(capacity=30, owner_max=25))
    same = profile(0, 20)
    state = DataplaneState(
        veths=(
            veth("g1", 1, same), veth("g2", 1, profile(0, 20)), veth("g3", 1, profile(100, 20)),
            veth("open", 1, None), veth("q1", 2, profile(0, 8)),
        )
    )  # fmt: skip
    limited, denied = PolicyShares().share(state, TENANTS)
    assert denied == {"g3"}, "equal rules count once, and the first ones stay"
    assert {each.name: each.ingress for each in limited.veths}["g3"] == DENIED
    assert [each for each in limited.veths if each.name != "g3"] == [
        each for each in state.veths if each.name != "g3"
    ]


def test_within_the_share_the_state_is_the_same_object() -> None:
    state = DataplaneState(veths=(veth("g1", 1, profile(0, 20)),))
    assert PolicyShares().share(state, TENANTS)[0] is state


def test_a_pod_that_goes_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_shares, "POLICY_PEERS", Pool(capacity=30, owner_max=25))
    first, second = veth("g1", 1, profile(0, 20)), veth("g2", 1, profile(100, 20))
    shared = PolicyShares()
    both = DataplaneState(veths=(first, second))
    assert shared.share(both, TENANTS)[1] == shared.share(both, TENANTS)[1] == {"g2"}
    assert shared.share(DataplaneState(veths=(second,)), TENANTS)[1] == frozenset()


def endpoints(vni: int, count: int) -> tuple[RemoteEndpoint, ...]:
    return tuple(RemoteEndpoint(vni, IPv4Address(n), IPv4Address("192.0.2.1")) for n in range(count))


def test_endpoints_of_a_tenant_are_cut_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_shares, "ENDPOINTS", Pool(capacity=10, owner_max=10))
    small = endpoints(2, 3)
    first, second, quiet = (
        TenantNetworkId(*each) for each in ((GREEDY, "first"), (GREEDY, "second"), (QUIET, "n"))
    )
    parts, cut = share_endpoints([(first, endpoints(1, 5)), (second, endpoints(3, 50)), (quiet, small)])
    assert [len(part) for part in parts] == [5, 2, 3]
    assert parts[2] is small
    assert cut == {second}


def backing(vni: int, tenant: TenantId) -> NetworkBacking:
    return NetworkBacking(TenantNetworkId(tenant, f"n{vni}"), Vpc(vni, ()), (), ())


def test_a_node_does_not_serve_more_networks_of_a_tenant_than_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(map_shares, "NETWORKS", Pool(capacity=6, owner_max=4))
    served = [(backing(vni, GREEDY), ()) for vni in range(100, 150)] + [(backing(7, QUIET), ())]
    kept, left_out = share_networks({}, served)
    assert [each.vni for each, _ in kept] == [7, 100, 101, 102, 103]
    assert left_out == {TenantNetworkId(GREEDY, f"n{vni}") for vni in range(104, 150)}
    few = served[:2]
    assert share_networks({}, few) == (few, frozenset())


def test_networks_of_many_subnets_do_not_fill_the_table_of_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,024 networks of 64 subnets each are as many as there are routes."""
    monkeypatch.setattr(map_shares, "ROUTES", Pool(capacity=1_000, owner_max=400))
    subnets = tuple(Subnet(1, ip_network((number << 8, 24))) for number in range(64))

    def with_subnets(tenant: TenantId, vni: int, count: int) -> NetworkBacking:
        return NetworkBacking(TenantNetworkId(tenant, f"n{vni}"), Vpc(vni, ()), subnets[:count], ())

    served = [(with_subnets(GREEDY, vni, 64), ()) for vni in range(100, 110)]
    served += [(with_subnets(QUIET, vni, 1), ()) for vni in range(200, 210)]
    kept, left_out = share_networks({}, served)
    assert {each.vni for each, _ in kept} == {*range(100, 105), *range(200, 210)}
    assert left_out == {TenantNetworkId(GREEDY, f"n{vni}") for vni in range(105, 110)}


def test_ring0_is_told_once_of_networks_that_a_node_without_the_tenants_pods_does_not_serve() -> None:
    """They were left out, and nobody was told."""
    events: list[tuple[TenantKey, str, str, str]] = []

    def note(tenant_key: TenantKey, involved: Object, reason: str, message: str) -> None:
        events.append((tenant_key, f"{involved['kind']}/{involved['name']}", reason, message))

    losses = NetworkLosses("node-1", note)
    network = frozenset({TenantNetworkId(GREEDY, "n1")})
    for found in (network, network, frozenset[TenantNetworkId](), network):
        losses.report(TOO_MANY_NETWORKS, found, {})
    [first, again] = events
    assert first == again and first[:3] == (TenantKey(HOME, SYSTEM), "Tenant/greedy", TOO_MANY_NETWORKS)
    assert "network n1 is not served by node node-1" in first[3] and "delete networks" in first[3]


def test_networks_that_do_not_fit_are_an_error_of_the_data_plane() -> None:
    with pytest.raises(DataPlaneError, match="map memories is full"):
        allot_slots({}, range(MEMORIES_MAX + 1))
