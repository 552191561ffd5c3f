"""Bounds that keep one tenant from filling what all share, and what is put together from parts."""

from ipaddress import IPv4Address, ip_network

import pytest

from alcove.agent.network.desired_state import DesiredStateBuilder
from alcove.agent.network.policy_rules import BLOCKS_MAX, limited
from alcove.agent.network.reconciler import local_node_ports
from alcove.dataplane.model import (
    DataplaneState,
    NodePort,
    PortRange,
    PrefixBlock,
    Protocol,
    TrafficProfile,
    TrafficRule,
)

NODE, OTHER = IPv4Address("192.0.2.1"), IPv4Address("192.0.2.2")


def profile(peers: int, ports: int) -> TrafficProfile:
    blocks = tuple(PrefixBlock(ip_network((n << 8, 24))) for n in range(peers))
    return TrafficProfile((TrafficRule(blocks, tuple(PortRange(Protocol.TCP, n, n) for n in range(ports))),))


def test_rules_beyond_the_bound_are_refused() -> None:
    fits = (profile(BLOCKS_MAX // 2, 1), profile(BLOCKS_MAX // 4, 2))
    assert limited(fits) is fits
    assert limited((None, TrafficProfile())) == (None, TrafficProfile())
    with pytest.raises(ValueError, match="exceed the maximum"):
        limited((profile(BLOCKS_MAX // 2, 1), profile(BLOCKS_MAX // 4 + 1, 2)))


def test_what_has_not_changed_is_the_same_tuple() -> None:
    assembly = DesiredStateBuilder("a", NODE, (ip_network("192.0.2.0/24"),))
    nodes = {"a": NODE, "b": OTHER}
    first = assembly.build(nodes, {}, [], [])
    again = assembly.build(dict(nodes), {}, [], [])
    assert first == DataplaneState(nodes=(OTHER,), forbidden=(ip_network("192.0.2.0/24"),))
    for field in first.__struct_fields__:
        assert getattr(first, field) is getattr(again, field), field
    fewer = assembly.build({"a": NODE}, {}, [], [])
    assert fewer.nodes == ()
    assert fewer.forbidden is first.forbidden


def test_nodes_outside_the_known_ranges_are_forbidden_one_by_one() -> None:
    far = IPv4Address("203.0.113.9")
    state = DesiredStateBuilder("a", NODE, (ip_network("192.0.2.0/24"),)).build(
        {"a": NODE, "far": far}, {}, [], []
    )
    assert state.forbidden == (ip_network("192.0.2.0/24"), ip_network("203.0.113.9/32"))


def test_doorsteps_are_the_nodes_own_tcp_doors() -> None:
    vip = IPv4Address("10.96.0.9")
    doors = (
        NodePort(7, NODE, 30080, Protocol.TCP, vip, 80),
        NodePort(7, NODE, 30053, Protocol.UDP, vip, 53),
        NodePort(7, IPv4Address("198.51.100.7"), 80, Protocol.TCP, vip, 80),
    )
    found = local_node_ports(DataplaneState(node_ports=doors), (NODE, None))
    assert list(found) == [("192.0.2.1", 30080)]
    assert (found["192.0.2.1", 30080].address, found["192.0.2.1", 30080].port) == ("10.96.0.9", 80)
