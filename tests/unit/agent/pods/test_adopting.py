"""What is found running becomes a view of its pod."""

from alcove.agent.podkey import PodKey
from alcove.agent.pods import marks
from alcove.agent.pods.adopting import view_of
from alcove.agent.pods.marks import Mark
from alcove.agent.runtime.base import Phase, Status
from alcove.api.ids import TenantId
from alcove.client.keys import HOME

SPEC = {"containers": [{"name": "a"}]}
KEY = PodKey(HOME, TenantId("acme"), "default", "web", "0b1f9c3e-6d0f-4c56-9d3c-5b1a6b1c2d3e")


def box(attempt: int, phase: Phase = Phase.RUNNING) -> Status:
    id = marks.sandbox_id(KEY, attempt)
    return Status(id, id, phase, Mark(KEY, "", attempt).labels(), 1.0)


def run(attempt: int, phase: Phase, name: str = "a") -> Status:
    id = marks.container_id(KEY, name, attempt)
    return Status(id, marks.sandbox_id(KEY, 0), phase, Mark(KEY, name, attempt, "image").labels(), 1.0)


def test_the_last_run_counts_the_one_before_is_kept_the_rest_goes() -> None:
    found = [box(0), run(2, Phase.RUNNING), run(0, Phase.EXITED), run(1, Phase.EXITED)]
    view = view_of({"spec": SPEC}, found)
    seen = view.seen("a")
    assert view.sandbox == found[0] and view.next_sandbox == 1
    assert seen.current is not None and seen.current.number == 2
    assert seen.previous is not None and seen.previous.number == 1
    assert list(seen.stale) == [marks.container_id(KEY, "a", 0)]
    assert seen.next_attempt == 3 and seen.restarts == 2


def test_what_never_came_to_be_is_removed_and_its_number_not_used_again() -> None:
    view = view_of({"spec": SPEC}, [box(0), run(0, Phase.BROKEN)])
    seen = view.seen("a")
    assert seen.current is None and list(seen.stale) == [marks.container_id(KEY, "a", 0)]
    assert seen.next_attempt == 1


def test_after_a_reboot_the_api_knows_how_often_it_ran() -> None:
    status = {"name": "a", "restartCount": 4, "containerID": "crun://x"}
    view = view_of({"spec": SPEC, "status": {"containerStatuses": [status]}}, [])
    assert view.sandbox is None
    assert view.seen("a").next_attempt == 5


def test_a_container_that_was_ready_is_not_told_otherwise_because_the_agent_is_new() -> None:
    id = marks.container_id(KEY, "a", 0)
    status = {"name": "a", "ready": True, "started": True, "containerID": f"crun://{id}", "restartCount": 0}
    view = view_of({"spec": SPEC, "status": {"containerStatuses": [status]}}, [box(0), run(0, Phase.RUNNING)])
    assert view.seen("a").is_ready and view.seen("a").is_started
    other = {**status, "containerID": "crun://another"}
    view = view_of({"spec": SPEC, "status": {"containerStatuses": [other]}}, [box(0), run(0, Phase.RUNNING)])
    assert not view.seen("a").is_ready


def test_a_container_that_only_a_status_names_is_not_known_to_the_node() -> None:
    """A tenant may write a status: its names must not become ids and paths."""
    status = {"name": "0/../../volumes/x", "restartCount": 0, "containerID": "crun://x"}
    for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        view = view_of({"spec": SPEC, "status": {field: [status]}}, [box(0), run(0, Phase.RUNNING)])
        assert list(view.containers) == ["a"]
