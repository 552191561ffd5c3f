"""The Node object: capacity, conditions, and when its status changes."""

from __future__ import annotations

from pathlib import Path

from alcove.agent import hardware
from alcove.agent.cgroups import Cgroups
from alcove.agent.hardware import Hardware
from alcove.agent.node import HOLLOW, NodeDescription, NodePressures, node_of, status_of

GB = 1 << 30
MACHINE = Hardware(4_000, 8 * GB, 100 * GB, "amd64", "6.1", "Linux", "boot", "machine")
FACTS = NodeDescription("n1", ("10.0.0.1",), 10250, MACHINE, [{"name": "crun"}], "alcove://crun")
NOW = 1_700_000_000.0


def conditions(facts: NodeDescription = FACTS, pressures: NodePressures | None = None) -> dict[str, str]:
    status = status_of(facts, pressures or NodePressures(), (), NOW)
    return {each["type"]: each["status"] for each in status["conditions"]}


def test_capacity_and_allocatable_differ_by_the_reservation() -> None:
    status = status_of(FACTS, NodePressures(), (), NOW)
    assert status["capacity"] == {
        "cpu": "4",
        "memory": f"{8 << 20}Ki",
        "ephemeral-storage": f"{100 << 20}Ki",
        "pods": "110",
    }
    assert status["allocatable"]["cpu"] == "3900m"
    assert status["runtimeHandlers"] == [{"name": "crun"}]
    assert status["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10250
    assert node_of(FACTS)["metadata"]["labels"]["kubernetes.io/arch"] == "amd64"


def test_conditions() -> None:
    fine = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}
    assert conditions() == fine
    assert conditions(pressures=NodePressures(memory=True))["MemoryPressure"] == "True"
    assert conditions(pressures=NodePressures(not_ready="no runtime"))["Ready"] == "False"
    hollow = NodeDescription("n1", (), 0, MACHINE, [], "hollow", is_hollow=True, hollow_because="no rights")
    assert conditions(hollow)[HOLLOW] == "True"
    message = status_of(hollow, NodePressures(), (), NOW)["conditions"][-1]["message"]
    assert "no processes" in message and "no rights" in message


def test_transition_times_are_kept_and_heartbeats_are_not() -> None:
    before = status_of(FACTS, NodePressures(), (), NOW)["conditions"]
    after = status_of(FACTS, NodePressures(disk=True), before, NOW + 60)["conditions"]
    changed = {each["type"] for each, old in zip(after, before, strict=True)
               if each["lastTransitionTime"] != old["lastTransitionTime"]}  # fmt: skip
    assert changed == {"DiskPressure"}
    assert all(each["lastHeartbeatTime"] == "2023-11-14T22:14:20Z" for each in after)


def test_the_machine_is_read(tmp_path: Path) -> None:
    found = hardware.read(tmp_path, Cgroups.of_machine())
    assert found.cpu_milli >= 1_000 and found.memory_bytes > GB // 4 and found.disk_bytes > 0
    assert found.kernel and found.architecture
