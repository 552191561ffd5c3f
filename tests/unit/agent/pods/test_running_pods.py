"""Pods as the node's server sees them: the last run of each container, and where its log is."""

from __future__ import annotations

from pathlib import Path

from alcove.agent.podkey import PodKey
from alcove.agent.pods.node_services import PodDirectories
from alcove.agent.pods.running_pods import RunningPod
from alcove.agent.pods.view import ContainerRun, ObservedContainer, PodRuntimeView
from alcove.agent.runtime.base import ContainerId, ContainerPhase, ContainerStatus
from alcove.api.ids import TenantId
from alcove.client.keys import HOME

KEY = PodKey(HOME, TenantId("acme"), "default", "web", "0b1f9c3e-6d0f-4c56-9d3c-5b1a6b1c2d3e")


class Worker:
    """As much of a worker as is asked for."""

    key = KEY

    def __init__(self, view: PodRuntimeView) -> None:
        self.view = view


def handle(view: PodRuntimeView, data: Path) -> RunningPod:
    return RunningPod(Worker(view), PodDirectories(data))  # type: ignore[arg-type]


def run(number: int) -> ContainerRun:
    id = ContainerId(f"{KEY.uid}.a.{number}")
    return ContainerRun(number, ContainerStatus(id, id, ContainerPhase.RUNNING, {}, 1.0))


def test_the_last_run_and_the_log_of_the_one_before(tmp_path: Path) -> None:
    found = handle(
        PodRuntimeView({"a": ObservedContainer(current=run(2), next_attempt=3), "b": ObservedContainer()}),
        tmp_path,
    ).containers
    assert set(found) == {"a"}, "the other was never made"
    assert found["a"].id == f"{KEY.uid}.a.2" and found["a"].attempt == 2
    assert found["a"].log_path == tmp_path / "logs" / KEY.uid / "a" / "2.log"
    assert found["a"].previous_log_path is None, "it is gone"
    before = tmp_path / "logs" / KEY.uid / "a" / "1.log"
    before.parent.mkdir(parents=True)
    before.touch()
    again = handle(
        PodRuntimeView({"a": ObservedContainer(current=run(2), next_attempt=3)}), tmp_path
    ).containers
    assert again["a"].previous_log_path == before


def test_a_pod_that_ended_under_another_agent_still_has_its_logs(tmp_path: Path) -> None:
    found = handle(PodRuntimeView({"a": ObservedContainer(next_attempt=2)}), tmp_path).containers
    assert found["a"].attempt == 1 and found["a"].log_path.name == "1.log"
