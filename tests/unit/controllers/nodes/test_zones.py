"""How fast nodes are given up, and when none is."""

import pytest

from alcove.api.objects import Object
from alcove.controllers.nodes.zones import STOPPED_SECONDS, NodeZone, NodeZones, rate, zone_of


def node(name: str, ready: bool, zone: str = "") -> Object:
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    return {"metadata": {"name": name, "labels": labels}, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("ready", "lost", "expected"),
    [
        (10, 0, 0.1),
        (1, 2, 0.1),  # Two are few, whatever share they are.
        (2, 3, 0.0),
        (5, 4, 0.1),
        (45, 55, 0.01),
        (23, 27, 0.1),
        (22, 28, 0.0),  # 50 nodes are a small zone.
        (22, 29, 0.01),
        (0, 10, 0.1),  # Others are ready, or the fleet would be lost.
    ],
)
def test_rates(ready: int, lost: int, expected: float) -> None:
    assert rate(ready, lost) == expected


def test_one_node_at_a_time_in_each_zone() -> None:
    fleet = NodeZones()
    for zone in "ab":
        for number in range(5):
            fleet.put(node(f"{zone}{number}", number > 0, zone))
    lost_a, lost_b = node("a0", False, "a"), node("b0", False, "b")
    assert fleet.start_eviction(lost_a, 1000.0) == 0
    assert fleet.start_eviction(lost_a, 1000.0) == 10.0
    assert fleet.start_eviction(lost_b, 1000.0) == 0
    assert fleet.start_eviction(lost_a, 1004.0) == 6.0
    assert fleet.start_eviction(lost_a, 1010.0) == 0


def test_nobody_is_given_up_where_most_are_lost() -> None:
    fleet = NodeZones()
    for number in range(6):
        fleet.put(node(f"n{number}", number < 2))
    assert not fleet.is_lost
    assert fleet.start_eviction(node("n5", False), 1000.0) == STOPPED_SECONDS
    fleet.put(node("n5", True))
    fleet.put(node("n4", True))
    assert fleet.start_eviction(node("n3", False), 1000.0) == 0


def test_the_fleet_is_lost_when_nobody_is_ready() -> None:
    fleet = NodeZones()
    assert not fleet.is_lost
    fleet.put(node("a", False, "a"))
    fleet.put(node("b", True, "b"))
    assert not fleet.is_lost
    fleet.put(node("b", False, "b"))
    assert fleet.is_lost
    fleet.remove("a")
    fleet.remove("b")
    fleet.remove("never-was")
    assert not fleet.is_lost


def test_zones_by_labels_old_and_new() -> None:
    assert zone_of(node("n", True)) == NodeZone("", "")
    old = {"failure-domain.beta.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}
    assert zone_of({"metadata": {"name": "n", "labels": old}}) == NodeZone("r", "z")
