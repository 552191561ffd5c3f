"""From conditions to taints."""

import pytest

from alcove.api.objects import Object
from alcove.controllers.nodes import taints

NOW = 1_700_000_000.0
OWN = {"key": "example.com/gpu", "effect": "NoExecute"}


def node(statuses: dict[str, str], *there: Object, unschedulable: bool = False) -> Object:
    conditions = [{"type": type_, "status": status} for type_, status in statuses.items()]
    spec: Object = {"taints": list(there), "unschedulable": unschedulable}
    return {"metadata": {"name": "n"}, "spec": spec, "status": {"conditions": conditions}}


def short(found: list[Object]) -> list[str]:
    return [f"{each['key'].removeprefix('node.kubernetes.io/')}:{each['effect']}" for each in found]


@pytest.mark.parametrize(
    ("statuses", "evicts", "expected"),
    [
        ({"Ready": "True"}, "", []),
        ({}, "", []),
        ({"Ready": "False"}, "", ["not-ready:NoSchedule"]),
        ({"Ready": "False"}, taints.NOT_READY, ["not-ready:NoSchedule", "not-ready:NoExecute"]),
        ({"Ready": "Unknown"}, taints.UNREACHABLE, ["unreachable:NoSchedule", "unreachable:NoExecute"]),
        ({"Ready": "True", "MemoryPressure": "True"}, "", ["memory-pressure:NoSchedule"]),
        ({"Ready": "True", "DiskPressure": "True"}, "", ["disk-pressure:NoSchedule"]),
        ({"Ready": "True", "PIDPressure": "True"}, "", ["pid-pressure:NoSchedule"]),
        ({"Ready": "True", "NetworkUnavailable": "True"}, "", ["network-unavailable:NoSchedule"]),
        ({"Ready": "True", "MemoryPressure": "Unknown"}, "", []),
    ],
)
def test_of_conditions(statuses: dict[str, str], evicts: str, expected: list[str]) -> None:
    assert short(taints.desired_taints(node(statuses), evicts, NOW)) == expected


def test_a_cordoned_node_takes_no_pods() -> None:
    found = taints.desired_taints(node({"Ready": "True"}, unschedulable=True), "", NOW)
    assert short(found) == ["unschedulable:NoSchedule"]
    assert found[0]["timeAdded"] == "2023-11-14T22:13:20Z"


def test_what_is_there_stays_and_what_is_over_goes() -> None:
    old = {"key": taints.NOT_READY, "effect": "NoSchedule", "timeAdded": "2020-01-01T00:00:00Z"}
    both = [OWN, old, {"key": taints.NOT_READY, "effect": "NoExecute"}]
    assert taints.desired_taints(node({"Ready": "False"}, *both), "", NOW) == [OWN, old]
    assert taints.desired_taints(node({"Ready": "True"}, *both), "", NOW) == [OWN]
    swapped = taints.desired_taints(node({"Ready": "Unknown"}, *both), taints.UNREACHABLE, NOW)
    assert short(swapped) == ["example.com/gpu:NoExecute", "unreachable:NoSchedule", "unreachable:NoExecute"]


def test_which_one_pods_leave_for() -> None:
    assert [taints.eviction_taint(node({"Ready": each})) for each in ("True", "False", "Unknown")] == [
        "",
        taints.NOT_READY,
        taints.UNREACHABLE,
    ]
    assert taints.eviction_taint(node({})) == ""
    assert not taints.has_eviction_taint(node({}, OWN))
    assert taints.has_eviction_taint(node({}, {"key": taints.NOT_READY, "effect": "NoExecute"}))
    assert not taints.has_eviction_taint(node({}, {"key": taints.NOT_READY, "effect": "NoSchedule"}))
