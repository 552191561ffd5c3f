"""Host ports in use: per address and protocol, of containers and sidecars, given back when pods go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.objects import Object
from alcove.scheduler.hostports import EVERY_ADDRESS, HostPort, HostPorts
from alcove.testing.scheduling import Scene, node, pod

SLOTS = 3
_port = st.builds(
    HostPort,
    st.sampled_from([EVERY_ADDRESS, "10.0.0.1", "10.0.0.2", "::1"]),
    st.sampled_from(["TCP", "UDP", "SCTP"]),
    st.sampled_from([80, 443]),
)
_pods = st.lists(st.tuples(st.integers(0, SLOTS - 1), st.lists(_port, max_size=3)), max_size=8)


def _collide(one: HostPort, other: HostPort) -> bool:
    if (one.protocol, one.number) != (other.protocol, other.number):
        return False
    return one.address == other.address or EVERY_ADDRESS in (one.address, other.address)


@given(_pods, st.data(), st.lists(_port, max_size=2))
def test_a_port_is_free_if_none_on_the_node_collides(
    pods: list[tuple[int, list[HostPort]]], data: st.DataObject, wanted: list[HostPort]
) -> None:
    ports = HostPorts()
    for slot, taken in pods:
        ports.take(slot, taken)
    staying = [each for each in pods if data.draw(st.booleans())]
    for slot, taken in [each for each in pods if not any(each is other for other in staying)]:
        ports.give_back(slot, taken)
    expected = [
        not any(
            _collide(port, other) for on, taken in staying if on == slot for other in taken for port in wanted
        )
        for slot in range(SLOTS)
    ]
    assert ports.free_everywhere(SLOTS, wanted).tolist() == expected
    assert [ports.is_free(slot, wanted) for slot in range(SLOTS)] == expected


def _container(port: Object, **more: str) -> Object:
    return {"name": "c", "ports": [port], **more}


@pytest.mark.parametrize(
    ("running", "is_taken"),
    [
        ({"containers": [_container({"hostPort": 80})]}, True),
        ({"initContainers": [_container({"hostPort": 80}, restartPolicy="Always")]}, True),
        # An initial container is over before the others run.
        ({"initContainers": [_container({"hostPort": 80})]}, False),
        ({"containers": [_container({"hostPort": 80, "protocol": "SCTP"})]}, False),
        ({"containers": [_container({"hostPort": 0, "containerPort": 80})]}, False),
        ({"containers": [_container({"hostPort": 80, "hostIP": "127.0.0.1"})]}, True),
    ],
)
def test_whose_ports_count(running: Object, is_taken: bool) -> None:
    scene = Scene(node("n"))
    placed = scene.place(pod("x", on="n", **running))
    asked = pod("p", containers=[_container({"hostPort": 80})])
    assert scene.feasible(asked) == (set() if is_taken else {"n"})
    scene.cache.lift(placed)
    assert scene.feasible(asked) == {"n"}
