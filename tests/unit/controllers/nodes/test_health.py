"""When a node counts as lost, and the conditions and events that it gets then."""

import pytest

from alcove.api.objects import Object
from alcove.controllers.nodes import health

NOW = 1_700_000_000.0
CREATED = "2023-11-14T00:00:00Z"


def node(**statuses: str) -> Object:
    conditions = [
        {"type": type_, "status": status, "reason": "Said", "lastHeartbeatTime": CREATED}
        for type_, status in statuses.items()
    ]
    metadata = {"name": "n", "creationTimestamp": CREATED}
    return {"metadata": metadata, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("statuses", "silent_seconds", "left"),
    [
        ({"Ready": "True"}, 0, 50),
        ({"Ready": "True"}, 49, 1),
        ({"Ready": "False"}, 20, 30),
        ({"Ready": "Unknown"}, 20, 30),
        ({}, 50, 10),
        ({}, 0, 60),
    ],
)
def test_time_of_grace(statuses: dict[str, str], silent_seconds: float, left: float) -> None:
    assert health.evaluate(node(**statuses), NOW - silent_seconds, NOW) == health.NodeHealth(None, left)


def test_after_it_all_that_the_node_kept_is_unknown() -> None:
    judged = health.evaluate(
        node(Ready="True", MemoryPressure="False", NetworkUnavailable="False"), NOW - 50, NOW
    )
    assert judged.next_check_seconds is None and judged.conditions is not None
    conditions = {each["type"]: (each["status"], each["reason"]) for each in judged.conditions}
    assert conditions == {
        "Ready": ("Unknown", "NodeStatusUnknown"),
        "MemoryPressure": ("Unknown", "NodeStatusUnknown"),
        "NetworkUnavailable": ("False", "Said"),
        "DiskPressure": ("Unknown", "NodeStatusNeverUpdated"),
        "PIDPressure": ("Unknown", "NodeStatusNeverUpdated"),
    }
    assert judged.conditions[0]["lastTransitionTime"] == "2023-11-14T22:13:20Z"
    assert judged.conditions[0]["lastHeartbeatTime"] == CREATED


def test_what_was_said_once_is_not_said_again() -> None:
    lost = node(Ready="True")
    lost["status"]["conditions"] = health.evaluate(lost, NOW - 50, NOW).conditions
    assert health.evaluate(lost, NOW - 90, NOW + 40) == health.NodeHealth(None, None)
