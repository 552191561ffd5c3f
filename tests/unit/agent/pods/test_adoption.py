"""Running containers become the view of their pod."""

from alcove.agent.podkey import PodKey
from alcove.agent.pods import container_labels
from alcove.agent.pods.adoption import view_of
from alcove.agent.pods.container_labels import ContainerMark
from alcove.agent.runtime.base import ContainerPhase, ContainerStatus
from alcove.api.ids import TenantId
from alcove.client.keys import HOME

SPEC = {"containers": [{"name": "a"}]}
KEY = PodKey(HOME, TenantId("acme"), "default", "web", "0b1f9c3e-6d0f-4c56-9d3c-5b1a6b1c2d3e")


def box(attempt: int, phase: ContainerPhase = ContainerPhase.RUNNING) -> ContainerStatus:
    id = container_labels.sandbox_id(KEY, attempt)
    return ContainerStatus(id, id, phase, ContainerMark(KEY, "", attempt).labels(), 1.0)


def run(attempt: int, phase: ContainerPhase, name: str = "a") -> ContainerStatus:
    id = container_labels.container_id(KEY, name, attempt)
    return ContainerStatus(
        id,
        container_labels.sandbox_id(KEY, 0),
        phase,
        ContainerMark(KEY, name, attempt, "image").labels(),
        1.0,
    )


def test_the_last_two_runs_are_kept_and_older_ones_removed() -> None:
    found = [
        box(0),
        run(2, ContainerPhase.RUNNING),
        run(0, ContainerPhase.EXITED),
        run(1, ContainerPhase.EXITED),
    ]
    view = view_of({"spec": SPEC}, found)
    observed = view.observed("a")
    assert view.sandbox == found[0] and view.next_sandbox == 1
    assert observed.current is not None and observed.current.number == 2
    assert observed.previous is not None and observed.previous.number == 1
    assert list(observed.stale) == [container_labels.container_id(KEY, "a", 0)]
    assert observed.next_attempt == 3 and observed.restarts == 2


def test_what_never_came_to_be_is_removed_and_its_number_not_used_again() -> None:
    view = view_of({"spec": SPEC}, [box(0), run(0, ContainerPhase.BROKEN)])
    observed = view.observed("a")
    assert observed.current is None and list(observed.stale) == [container_labels.container_id(KEY, "a", 0)]
    assert observed.next_attempt == 1


def test_after_a_reboot_the_api_knows_how_often_it_ran() -> None:
    status = {"name": "a", "restartCount": 4, "containerID": "crun://x"}
    view = view_of({"spec": SPEC, "status": {"containerStatuses": [status]}}, [])
    assert view.sandbox is None
    assert view.observed("a").next_attempt == 5


def test_a_ready_container_stays_ready_when_the_agent_restarts() -> None:
    id = container_labels.container_id(KEY, "a", 0)
    status = {"name": "a", "ready": True, "started": True, "containerID": f"crun://{id}", "restartCount": 0}
    view = view_of(
        {"spec": SPEC, "status": {"containerStatuses": [status]}}, [box(0), run(0, ContainerPhase.RUNNING)]
    )
    assert view.observed("a").is_ready and view.observed("a").is_started
    other = {**status, "containerID": "crun://another"}
    view = view_of(
        {"spec": SPEC, "status": {"containerStatuses": [other]}}, [box(0), run(0, ContainerPhase.RUNNING)]
    )
    assert not view.observed("a").is_ready


def test_a_container_that_only_a_status_names_is_not_known_to_the_node() -> None:
    """A tenant may write a status: its names must not become ids and paths."""
    status = {"name": "0/../../volumes/x", "restartCount": 0, "containerID": "crun://x"}
    for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        view = view_of({"spec": SPEC, "status": {field: [status]}}, [box(0), run(0, ContainerPhase.RUNNING)])
        assert list(view.containers) == ["a"]
