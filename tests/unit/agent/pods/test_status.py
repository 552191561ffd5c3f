"""The status of a pod, computed from the observed state of its containers."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from alcove.agent.pods.containers import desired_containers
from alcove.agent.pods.plan import finished
from alcove.agent.pods.status import TEXT_LENGTH_MAX, HostFacts, status_of
from alcove.agent.pods.view import (
    ContainerRun,
    ObservedContainer,
    PodRuntimeView,
    PodTermination,
    TerminationCause,
    WaitingState,
)
from alcove.agent.runtime.base import ContainerId, ContainerPhase, ContainerStatus
from alcove.agent.runtime.users import User
from alcove.api.objects import Object

HOST = HostFacts(("10.0.0.1",), "crun")
BOX = ContainerId("u.0")
NOW = 1_700_000_000.0
RUNNING, EXITED = ContainerPhase.RUNNING, ContainerPhase.EXITED


def attempt(phase: ContainerPhase, code: int = 0, number: int = 0, oom: bool = False) -> ContainerRun:
    finished_at = NOW - 1 if phase is EXITED else 0.0
    status = ContainerStatus(
        ContainerId(f"u.a.{number}"), BOX, phase, {}, NOW - 9, NOW - 8, finished_at, code, oom_killed=oom
    )
    return ContainerRun(number, status, "busybox", "busybox@sha256:1")


def pod(policy: str = "Always", **more: Any) -> Object:
    spec = {"containers": [{"name": "a", "image": "busybox"}], "restartPolicy": policy, **more}
    return {"metadata": {"name": "p", "uid": "u"}, "spec": spec, "status": {"phase": "Pending"}}


def view(**containers: ObservedContainer) -> PodRuntimeView:
    return PodRuntimeView(
        containers=containers, sandbox=ContainerStatus(BOX, BOX, RUNNING, {}, 1.0), is_set_up=True
    )


def status_for(made: Object, seen: PodRuntimeView) -> Object:
    if seen.end is None:
        seen.end = finished(made["spec"], desired_containers(made["spec"]), seen)
    return status_of(made, seen, HOST, ("192.168.0.5",), NOW)


def conditions(status: Object) -> dict[str, str]:
    return {each["type"]: each["status"] for each in status["conditions"]}


def test_a_pod_that_is_being_created() -> None:
    status = status_of(pod(), PodRuntimeView(), HOST, (), NOW)
    assert status["phase"] == "Pending" and "podIP" not in status
    (container,) = status["containerStatuses"]
    assert container["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert container["restartCount"] == 0 and not container["ready"] and "containerID" not in container
    assert conditions(status) == {
        "PodReadyToStartContainers": "False",
        "Initialized": "True",
        "Ready": "False",
        "ContainersReady": "False",
        "PodScheduled": "True",
    }


def test_a_pod_that_runs() -> None:
    observed = ObservedContainer(current=attempt(RUNNING), next_attempt=1, is_started=True, is_ready=True)
    status = status_for(pod(), view(a=observed))
    assert status["phase"] == "Running"
    assert status["podIPs"] == [{"ip": "192.168.0.5"}] and status["hostIP"] == "10.0.0.1"
    (container,) = status["containerStatuses"]
    assert container["containerID"] == "crun://u.a.0"
    assert container["ready"] and container["started"]
    assert set(conditions(status).values()) == {"True"}


def test_a_status_has_the_observed_generation() -> None:
    made = pod()
    made["metadata"]["generation"] = 4
    status = status_for(made, view())
    assert status["observedGeneration"] == 4
    assert {each["observedGeneration"] for each in status["conditions"]} == {4}


def test_a_container_that_crashes() -> None:
    why = WaitingState("CrashLoopBackOff", "back-off 10s")
    observed = ObservedContainer(
        current=attempt(EXITED, 3, 1), previous=attempt(EXITED, 2), next_attempt=2, waiting=why
    )
    status = status_for(pod(), view(a=observed))
    (container,) = status["containerStatuses"]
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert container["lastState"]["terminated"]["exitCode"] == 3
    assert container["restartCount"] == 1
    assert status["phase"] == "Running" and conditions(status)["Ready"] == "False"


@pytest.mark.parametrize(
    ("policy", "code", "phase", "reason"),
    [
        ("Never", 0, "Succeeded", "Completed"),
        ("Never", 1, "Failed", "Error"),
        ("OnFailure", 0, "Succeeded", "Completed"),
        ("OnFailure", 1, "Running", "Error"),
        ("Always", 0, "Running", "Completed"),
    ],
)
def test_how_a_pod_ends(policy: str, code: int, phase: str, reason: str) -> None:
    status = status_for(pod(policy), view(a=ObservedContainer(current=attempt(EXITED, code), next_attempt=1)))
    assert status["phase"] == phase
    assert status["containerStatuses"][0]["state"]["terminated"]["reason"] == reason


def test_memory_that_ran_out() -> None:
    status = status_for(
        pod("Never"), view(a=ObservedContainer(current=attempt(EXITED, 137, oom=True), next_attempt=1))
    )
    assert status["containerStatuses"][0]["state"]["terminated"]["reason"] == "OOMKilled"


def test_init_containers_that_wait_for_their_turn_say_that_the_pod_initializes() -> None:
    status = status_of(pod(initContainers=[{"name": "i"}, {"name": "j"}]), PodRuntimeView(), HOST, (), NOW)
    states = [each["state"] for each in [*status["initContainerStatuses"], *status["containerStatuses"]]]
    assert states == [{"waiting": {"reason": "PodInitializing"}}] * 3


def test_a_pod_is_pending_until_its_init_containers_are_through() -> None:
    made = pod(initContainers=[{"name": "i"}, {"name": "s", "restartPolicy": "Always"}])
    first = view(i=ObservedContainer(current=attempt(RUNNING), next_attempt=1))
    status = status_for(made, first)
    assert status["phase"] == "Pending"
    waiting = {"waiting": {"reason": "PodInitializing"}}
    assert status["containerStatuses"][0]["state"] == waiting
    assert status["initContainerStatuses"][1]["state"] == waiting
    assert conditions(status)["Initialized"] == "False"
    done = ObservedContainer(current=attempt(EXITED), next_attempt=1)
    side = ObservedContainer(current=attempt(RUNNING), next_attempt=1, is_started=True, is_ready=True)
    main = ObservedContainer(current=attempt(RUNNING), next_attempt=1, is_started=True, is_ready=True)
    status = status_for(made, view(i=done, s=side, a=main))
    assert status["phase"] == "Running" and conditions(status)["Ready"] == "True"
    side.is_ready = False
    assert conditions(status_for(made, view(i=done, s=side, a=main)))["Ready"] == "False"


def test_a_pod_terminated_by_the_node_has_its_reason_once_nothing_runs() -> None:
    observed = ObservedContainer(current=attempt(RUNNING), next_attempt=1, is_started=True, is_ready=True)
    ending = view(a=observed)
    ending.end = PodTermination(
        TerminationCause.FAILED, 0.0, "Evicted", "The node was low on resource: memory. "
    )
    assert status_for(pod(), ending)["phase"] == "Running"
    observed.current = attempt(EXITED, 137)
    status = status_for(pod(), ending)
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    assert conditions(status)["DisruptionTarget"] == "True"


def test_a_condition_that_did_not_change_keeps_its_time() -> None:
    observed = ObservedContainer(current=attempt(RUNNING), next_attempt=1, is_started=True, is_ready=True)
    made = pod()
    made["status"] = status_for(made, view(a=observed))
    later = status_of(made, view(a=observed), HOST, ("192.168.0.5",), NOW + 60)
    assert later == made["status"]


def test_readiness_gates_hold_a_pod_back() -> None:
    observed = ObservedContainer(current=attempt(RUNNING), next_attempt=1, is_started=True, is_ready=True)
    made = pod(readinessGates=[{"conditionType": "example.com/up"}])
    status = status_for(made, view(a=observed))
    assert conditions(status)["ContainersReady"] == "True" and conditions(status)["Ready"] == "False"
    made["status"]["conditions"] = [{"type": "example.com/up", "status": "True"}]
    assert conditions(status_for(made, view(a=observed)))["Ready"] == "True"


def test_a_container_says_who_it_runs_as_and_how_its_volumes_are_mounted() -> None:
    mounts = [
        {"name": "a", "mountPath": "/a"},
        {"name": "b", "mountPath": "/b", "readOnly": True},
        {"name": "c", "mountPath": "/c", "readOnly": True, "recursiveReadOnly": "IfPossible"},
    ]
    made = pod()
    made["spec"]["containers"][0]["volumeMounts"] = mounts
    run = structs.replace(attempt(ContainerPhase.RUNNING), user=User(7, 8, (9,)))
    name = made["spec"]["containers"][0]["name"]
    [found] = status_for(made, view(**{name: ObservedContainer(current=run)}))["containerStatuses"]
    assert found["user"] == {"linux": {"uid": 7, "gid": 8, "supplementalGroups": [9]}}
    assert found["volumeMounts"] == [
        {"name": "a", "mountPath": "/a"},
        {"name": "b", "mountPath": "/b", "readOnly": True, "recursiveReadOnly": "Disabled"},
        {"name": "c", "mountPath": "/c", "readOnly": True, "recursiveReadOnly": "Enabled"},
    ]


def test_a_status_is_short_however_long_the_names_and_paths_are_that_it_quotes() -> None:
    """The object was too large to be stored with it, so that the pod had no status, and was never removed."""
    long = "x" * (1 << 20)
    mounts = [{"name": "v", "mountPath": f"/{long}"}, {"name": "v", "mountPath": "/short"}]
    made = pod(containers=[{"name": "a", "image": long, "volumeMounts": mounts}])
    seen = view(a=ObservedContainer(waiting=WaitingState("InvalidImageName", f"invalid name {long}")))
    status = status_for(made, seen)
    [container] = status["containerStatuses"]
    assert len(str(status)) < 4 * TEXT_LENGTH_MAX
    assert container["image"].startswith("xxx") and container["image"].endswith("…")
    assert container["state"]["waiting"]["message"].startswith("invalid name xxx")
    assert [each["mountPath"] for each in container["volumeMounts"]] == ["/short"]
