"""The state that the data plane is given."""

from ipaddress import IPv4Address, ip_network
from typing import Any

from alcove.agent.network.desired_state import DesiredStateBuilder
from alcove.dataplane.model import (
    DataplaneState,
)

NODE, OTHER = IPv4Address("192.0.2.1"), IPv4Address("192.0.2.2")


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


def test_addresses_of_nodes_are_read_once_for_any_number_of_changes() -> None:
    reads = 0

    class Nodes(dict[str, IPv4Address]):
        def values(self) -> Any:
            nonlocal reads
            reads += 1
            return super().values()

    builder = DesiredStateBuilder("a", NODE, (ip_network("192.0.2.0/24"),))
    nodes = Nodes(a=NODE, b=OTHER)
    states = [builder.build(nodes, {}, [], []) for _ in range(5)]
    assert reads == 1
    assert all(state.nodes == (OTHER,) for state in states)
