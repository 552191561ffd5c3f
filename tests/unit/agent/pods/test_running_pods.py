"""What the node's server is told of pods: the last run of each container, and where its log is."""

from __future__ import annotations

from pathlib import Path

from alcove.agent.podkey import PodKey
from alcove.agent.pods.running import Handle
from alcove.agent.pods.view import Attempt, Seen, View
from alcove.agent.pods.workshop import Folders
from alcove.agent.runtime.base import ContainerId, Phase, Status
from alcove.api.ids import TenantId
from alcove.client.keys import HOME

KEY = PodKey(HOME, TenantId("acme"), "default", "web", "0b1f9c3e-6d0f-4c56-9d3c-5b1a6b1c2d3e")


class Worker:
    """As much of a worker as is asked for."""

    key = KEY

    def __init__(self, view: View) -> None:
        self.view = view


def handle(view: View, data: Path) -> Handle:
    return Handle(Worker(view), Folders(data))  # type: ignore[arg-type]


def run(number: int) -> Attempt:
    id = ContainerId(f"{KEY.uid}.a.{number}")
    return Attempt(number, Status(id, id, Phase.RUNNING, {}, 1.0))


def test_the_last_run_and_the_log_of_the_one_before(tmp_path: Path) -> None:
    found = handle(View({"a": Seen(current=run(2), next_attempt=3), "b": Seen()}), tmp_path).containers
    assert set(found) == {"a"}, "the other was never made"
    assert found["a"].id == f"{KEY.uid}.a.2" and found["a"].attempt == 2
    assert found["a"].log_path == tmp_path / "logs" / KEY.uid / "a" / "2.log"
    assert found["a"].previous_log_path is None, "it is gone"
    before = tmp_path / "logs" / KEY.uid / "a" / "1.log"
    before.parent.mkdir(parents=True)
    before.touch()
    again = handle(View({"a": Seen(current=run(2), next_attempt=3)}), tmp_path).containers
    assert again["a"].previous_log_path == before


def test_a_pod_that_ended_under_another_agent_still_has_its_logs(tmp_path: Path) -> None:
    found = handle(View({"a": Seen(next_attempt=2)}), tmp_path).containers
    assert found["a"].attempt == 1 and found["a"].log_path.name == "1.log"
