"""What a resize gives to containers, and what is left as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from alcove.agent.podkey import PodKey
from alcove.agent.pods.admission import NodeAdmission
from alcove.agent.pods.containers import desired_containers
from alcove.agent.pods.hollow_executor import HollowPodExecutor
from alcove.agent.pods.resizing import (
    RETRY_SECONDS,
    ResizeState,
    needs_restart,
    reported_resources,
    resize,
    resources_of,
    with_resources,
)
from alcove.agent.pods.status import HostFacts, status_of
from alcove.agent.pods.view import ContainerRun, ObservedContainer, PodRuntimeView
from alcove.agent.runtime.base import ContainerId, ContainerPhase, ContainerStatus
from alcove.agent.runtime.hollow import HollowRuntime
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.testing.clock import VirtualClock

KEY = PodKey(HOME, TenantId("acme"), "default", "web", "0b1f9c3e-6d0f-4c56-9d3c-5b1a6b1c2d3e")
OTHER = PodKey(HOME, TenantId("acme"), "default", "other", "0b1f9c3e-6d0f-4c56-9d3c-5b1a6b1c2d3f")
NOW = 1_700_000_000.0


def cpu(amount: str, limit: str = "") -> Object:
    return {"requests": {"cpu": amount}, **({"limits": {"cpu": limit}} if limit else {})}


def pod(amount: str = "1", **container: object) -> Object:
    containers = [{"name": "a", "image": "x", "resources": cpu(amount), **container}]
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": KEY.uid},
        "spec": {"containers": containers},
    }


class Executor(HollowPodExecutor):
    refuses: str = ""

    async def resize(self, pod: Object, running: Mapping[ContainerId, Object]) -> None:
        if self.refuses:
            raise OSError(16, self.refuses)


class Node:
    def __init__(self) -> None:
        self.admission = NodeAdmission({"cpu": "4", "pods": "10"})
        self.executor = Executor(KEY, HollowRuntime(VirtualClock()), None)  # type: ignore[arg-type]
        status = ContainerStatus(
            ContainerId("c"), ContainerId("s"), ContainerPhase.RUNNING, {}, NOW, NOW, 0.0, 0
        )
        run = ContainerRun(0, status, "x", "x")
        self.view = PodRuntimeView(
            containers={"a": ObservedContainer(current=run, next_attempt=1, is_started=True, is_ready=True)},
            resize=ResizeState(resources_of(pod()["spec"])),
        )
        self.admission.adopt(KEY, pod())

    def resize(self, wanted: Object, now: float = NOW) -> tuple[str, str] | None:
        return asyncio.run(resize(KEY, wanted, self.view, self.admission, self.executor, now))

    def conditions(self, wanted: Object) -> dict[str, tuple[str, str]]:
        status = status_of(wanted, self.view, HostFacts(("10.0.0.1",)), ("10.0.0.7",), NOW)
        found = {each["type"]: (each["reason"], each["message"]) for each in status["conditions"]}
        return {kind: value for kind, value in found.items() if kind.startswith("PodResize")}

    def reported(self, wanted: Object) -> Object:
        status = status_of(wanted, self.view, HostFacts(("10.0.0.1",)), ("10.0.0.7",), NOW)
        (container,) = status["containerStatuses"]
        assert container["allocatedResources"] == container["resources"]["requests"]
        resources: Object = container["resources"]
        return resources


def test_a_resize_that_fits_is_made_and_leaves_no_condition() -> None:
    node, wanted = Node(), pod("3")
    assert node.view.resize.is_due(wanted["spec"], NOW)
    # A status that is written meanwhile has the new generation and the old resources.
    assert list(node.conditions(wanted)) == ["PodResizeInProgress"]
    assert node.resize(wanted) is None
    assert node.reported(wanted) == cpu("3") and node.conditions(wanted) == {}
    assert not node.view.resize.is_due(wanted["spec"], NOW)


def test_more_than_the_node_has_is_infeasible_and_not_tried_again() -> None:
    node, wanted = Node(), pod("5")
    failure = node.resize(wanted)
    message = "Node didn't have enough capacity: cpu, requested: 5, capacity: 4"
    assert failure == ("ResizeInfeasible", message)
    assert node.conditions(wanted) == {"PodResizePending": ("Infeasible", message)}
    assert node.reported(wanted) == cpu("1"), "it keeps what it has"
    assert not node.view.resize.is_due(wanted["spec"], NOW + 1e9)
    assert node.view.resize.wake_at(wanted["spec"]) is None
    assert node.view.resize.is_due(pod("2")["spec"], NOW), "another size is another question"
    assert node.resize(pod("2")) is None and node.conditions(pod("2")) == {}


def test_what_other_pods_use_is_waited_for() -> None:
    node, wanted = Node(), pod("3")
    node.admission.adopt(OTHER, pod("2"))
    message = "Node didn't have enough resource: cpu, requested: 3, used: 2, capacity: 4"
    assert node.resize(wanted) == ("ResizeDeferred", message)
    assert node.conditions(wanted) == {"PodResizePending": ("Deferred", message)}
    assert node.view.resize.wake_at(wanted["spec"]) == NOW + RETRY_SECONDS
    assert not node.view.resize.is_due(wanted["spec"], NOW + 1)
    assert node.view.resize.is_due(wanted["spec"], NOW + RETRY_SECONDS)
    assert node.resize(wanted) is None, "the event is recorded once"
    assert node.conditions(wanted) != {}
    node.admission.release(OTHER)
    assert node.resize(wanted) is None
    assert node.reported(wanted) == cpu("3") and node.conditions(wanted) == {}


def test_a_resize_back_needs_nothing() -> None:
    node = Node()
    node.resize(pod("5"))
    assert not node.view.resize.is_due(pod("1")["spec"], NOW)
    assert node.view.resize.wake_at(pod("1")["spec"]) is None and node.conditions(pod("1")) == {}


def test_what_the_kernel_refuses_is_in_progress_with_an_error() -> None:
    node, wanted = Node(), pod("2")
    node.executor.refuses = "Device or resource busy"
    failure = node.resize(wanted)
    assert failure is not None and failure[0] == "ResizeError"
    assert node.conditions(wanted)["PodResizeInProgress"][0] == "Error"
    assert node.reported(wanted) == cpu("1")
    node.executor.refuses = ""
    assert node.resize(wanted) is None and node.conditions(wanted) == {}


@pytest.mark.parametrize(("policy", "restarts"), [("cpu", True), ("memory", False)])
def test_a_container_is_restarted_if_its_policy_for_what_changed_says_so(policy: str, restarts: bool) -> None:
    policies = [{"resourceName": policy, "restartPolicy": "RestartContainer"}]
    (container,) = desired_containers(pod("2", resizePolicy=policies)["spec"])
    assert needs_restart(container, cpu("1")) is restarts
    assert not needs_restart(container, cpu("2"))
    node = Node()
    node.resize(pod("2", resizePolicy=policies))
    assert bool(node.view.observed("a").kill_message) is restarts


def test_a_restarted_agent_knows_what_was_allocated() -> None:
    wanted = pod("3")

    def reported(resources: Object) -> list[Object]:
        return reported_resources(
            {**wanted, "status": {"containerStatuses": [{"name": "a", "resources": resources}]}}
        )

    assert reported_resources(wanted) == [cpu("3")]
    assert reported(cpu("1")) == [cpu("1")]
    for forged in (cpu("9"), cpu("1", "9"), cpu("x"), {}, {"requests": {"memory": "1"}}):
        assert reported(forged) == [cpu("3")], "users may write a status"


def test_the_allocated_pod_has_the_rest_of_its_spec() -> None:
    wanted = pod("3", command=["x"])
    assert with_resources(wanted, None) is wanted and with_resources(wanted, [cpu("3")]) is wanted
    (container,) = with_resources(wanted, [cpu("1")])["spec"]["containers"]
    assert container == {"name": "a", "image": "x", "resources": cpu("1"), "command": ["x"]}
