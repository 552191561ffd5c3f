"""The next steps for a pod, by its observed state."""

from __future__ import annotations

from typing import Any

import pytest

from alcove.agent.pods.plan import (
    MakeSandbox,
    PodPlan,
    RemoveContainer,
    RemoveSandbox,
    RestartAllContainers,
    SetUpPod,
    StartContainer,
    StartCreatedContainer,
    StopContainer,
    TearDownPod,
    plan,
    reset_containers,
)
from alcove.agent.pods.view import (
    ContainerRun,
    ObservedContainer,
    PodRuntimeView,
    PodTermination,
    TerminationCause,
)
from alcove.agent.runtime.base import ContainerId, ContainerPhase, ContainerStatus
from alcove.api.objects import Object

NOW = 1_000.0
BOX = ContainerId("u.0")


def attempt(phase: ContainerPhase, code: int = 0, number: int = 0, sandbox: str = BOX) -> ContainerRun:
    id = ContainerId(f"u.c.{number}")
    return ContainerRun(number, ContainerStatus(id, ContainerId(sandbox), phase, {}, 1.0, exit_code=code))


def seen(phase: ContainerPhase | None = None, code: int = 0, **more: Any) -> ObservedContainer:
    current = attempt(phase, code) if phase is not None else None
    return ObservedContainer(current=current, next_attempt=1 if current else 0, **more)


def view(box: ContainerPhase | None = ContainerPhase.RUNNING, **more: Any) -> PodRuntimeView:
    sandbox = ContainerStatus(BOX, BOX, box, {}, 1.0) if box is not None else None
    containers = more.pop("containers", {})
    return PodRuntimeView(
        containers=containers, sandbox=sandbox, next_sandbox=1 if box else 0, is_set_up=True, **more
    )


def spec(*names: str, inits: tuple[Object, ...] = (), policy: str = "Always") -> Object:
    containers = [{"name": name} for name in names or ("a",)]
    return {"containers": containers, "initContainers": list(inits), "restartPolicy": policy}


INIT: Object = {"name": "init"}
SIDE: Object = {"name": "side", "restartPolicy": "Always"}
RUNNING, EXITED, CREATED = ContainerPhase.RUNNING, ContainerPhase.EXITED, ContainerPhase.CREATED


def test_a_new_pod_is_set_up_then_gets_a_sandbox_then_its_containers() -> None:
    assert plan(spec(), PodRuntimeView(), NOW).step == SetUpPod()
    assert plan(spec(), PodRuntimeView(is_set_up=True), NOW).step == MakeSandbox(0)
    assert plan(spec(), view(), NOW).step == StartContainer("a", 0)
    assert plan(spec(), view(containers={"a": seen(RUNNING)}), NOW) == PodPlan()


def test_what_failed_is_tried_again_when_it_is_time() -> None:
    assert plan(spec(), PodRuntimeView(retry_at=NOW + 5), NOW) == PodPlan(wake_at=NOW + 5)
    assert plan(spec(), PodRuntimeView(retry_at=NOW), NOW).step == SetUpPod()


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ({}, StartContainer("init", 0)),
        ({"init": seen(RUNNING)}, None),
        ({"init": seen(EXITED, 1)}, StartContainer("init", 1)),
        ({"init": seen(EXITED)}, StartContainer("side", 0)),
        ({"init": seen(EXITED), "side": seen(RUNNING)}, None),
        ({"init": seen(EXITED), "side": seen(RUNNING, is_started=True)}, StartContainer("a", 0)),
        ({"init": seen(EXITED), "side": seen(EXITED, 1), "a": seen(RUNNING)}, StartContainer("side", 1)),
        ({"init": seen(EXITED), "side": seen(RUNNING), "a": seen(EXITED, 1)}, StartContainer("a", 1)),
    ],
)
def test_init_containers_and_sidecars_come_in_their_turn(
    containers: dict[str, ObservedContainer], expected: object
) -> None:
    assert plan(spec("a", inits=(INIT, SIDE)), view(containers=containers), NOW).step == expected


def test_init_containers_do_not_run_again_beside_containers() -> None:
    containers = {"init": seen(None), "a": seen(RUNNING)}
    assert plan(spec("a", inits=(INIT,)), view(containers=containers), NOW) == PodPlan()


def test_init_containers_run_again_in_a_new_sandbox() -> None:
    elsewhere = ObservedContainer(current=attempt(EXITED, 0, 0, "u.old"), next_attempt=1)
    main = ObservedContainer(current=attempt(EXITED, 137, 0, "u.old"), next_attempt=1)
    containers = {"init": elsewhere, "a": main}
    assert plan(spec("a", inits=(INIT,)), view(containers=containers), NOW).step == StartContainer("init", 1)


@pytest.mark.parametrize(
    ("policy", "code", "goes_on"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Never", 0, False),
        ("Never", 1, False),
    ],
)
def test_restart_policies(policy: str, code: int, goes_on: bool) -> None:
    found = plan(spec(policy=policy), view(containers={"a": seen(EXITED, code)}), NOW).step
    assert found == (StartContainer("a", 1) if goes_on else TearDownPod())


def test_one_in_back_off_does_not_hold_up_another() -> None:
    containers = {"a": seen(EXITED, 1, retry_at=NOW + 10), "b": seen(EXITED, 1, retry_at=NOW)}
    assert plan(spec("a", "b"), view(containers=containers), NOW).step == StartContainer("b", 1)
    containers["b"].retry_at = NOW + 20
    assert plan(spec("a", "b"), view(containers=containers), NOW) == PodPlan(wake_at=NOW + 10)


def test_a_pod_waits_for_all_its_containers_to_end() -> None:
    containers = {"a": seen(EXITED), "b": seen(RUNNING)}
    assert plan(spec("a", "b", policy="Never"), view(containers=containers), NOW) == PodPlan()


def test_an_init_container_that_fails_for_good_ends_the_pod() -> None:
    containers = {"init": seen(EXITED, 3)}
    assert (
        plan(spec("a", inits=(INIT,), policy="Never"), view(containers=containers), NOW).step == TearDownPod()
    )


def test_a_created_container_is_started_not_created_again() -> None:
    found = plan(spec(), view(containers={"a": seen(CREATED)}), NOW).step
    assert found == StartCreatedContainer("a", ContainerId("u.c.0"))


def test_a_created_sandbox_is_adopted() -> None:
    assert plan(spec(), view(CREATED), NOW).step == MakeSandbox(1)


def test_when_the_sandbox_exits_all_containers_are_stopped_and_started_again() -> None:
    alive = view(EXITED, containers={"a": seen(RUNNING)})
    assert plan(spec(), alive, NOW).stops == (StopContainer("a", 0.0, "Stopping container a"),)
    assert plan(spec(), view(EXITED, containers={"a": seen(EXITED, 137)}), NOW).step == RemoveSandbox()


def test_a_container_to_be_killed_is_stopped_with_its_grace_period() -> None:
    wanted = {**spec(), "terminationGracePeriodSeconds": 7}
    found = plan(
        wanted, view(containers={"a": seen(RUNNING, kill_message="Container a failed liveness probe")}), NOW
    )
    assert found.stops == (StopContainer("a", 7.0, "Container a failed liveness probe, will be restarted"),)


def test_runs_of_long_ago_are_removed() -> None:
    old = ContainerId("u.a.0")
    found = plan(spec(), view(containers={"a": seen(RUNNING, stale=(old,))}), NOW)
    assert found.step == RemoveContainer("a", old)


def test_a_deleted_pod_stops_its_sidecars_last_and_in_reverse_order() -> None:
    other: Object = {"name": "other", "restartPolicy": "Always"}
    wanted = spec("a", inits=(SIDE, other))
    containers = {"a": seen(RUNNING), "side": seen(RUNNING), "other": seen(RUNNING)}
    found = view(containers=containers, end=PodTermination(TerminationCause.DELETED, 5.0))
    assert [each.container for each in plan(wanted, found, NOW).stops] == ["a"]
    containers["a"] = seen(EXITED)
    assert [each.container for each in plan(wanted, found, NOW).stops] == ["other"]
    containers["other"] = seen(EXITED)
    assert [each.container for each in plan(wanted, found, NOW).stops] == ["side"]
    containers["side"] = seen(EXITED)
    assert plan(wanted, found, NOW) == PodPlan(TearDownPod())
    found.is_clean = True
    assert plan(wanted, found, NOW) == PodPlan(is_over=True)


def test_a_pod_that_finished_stays_until_it_is_deleted() -> None:
    found = view(containers={"a": seen(EXITED)}, end=PodTermination(TerminationCause.FINISHED), is_clean=True)
    assert plan(spec(policy="Never"), found, NOW) == PodPlan()


def test_ephemeral_containers_join_once() -> None:
    wanted = {**spec(), "ephemeralContainers": [{"name": "look"}]}
    assert plan(wanted, view(containers={"a": seen(RUNNING)}), NOW).step == StartContainer("look", 0)
    containers = {"a": seen(RUNNING), "look": seen(EXITED, 1)}
    assert plan(wanted, view(containers=containers), NOW) == PodPlan()


ALL = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}


@pytest.mark.parametrize("policy", ["Always", "Never"])
def test_a_rule_that_restarts_all_containers_begins_with_the_init_containers(policy: str) -> None:
    wanted = spec("a", "b", inits=(INIT,), policy=policy)
    wanted["containers"][0] |= {"restartPolicy": policy, "restartPolicyRules": [ALL]}
    state = view(containers={"init": seen(EXITED), "a": seen(EXITED, 42), "b": seen(RUNNING)})
    assert plan(wanted, state, NOW) == PodPlan(stops=(StopContainer("b", 0.0, "Stopping container b"),))
    state.containers["b"] = seen(EXITED, 137)
    assert plan(wanted, state, NOW).step == RestartAllContainers()
    reset_containers(wanted, state)
    assert plan(wanted, state, NOW).step == StartContainer("init", 1)
    state.containers["init"] = seen(EXITED)
    assert plan(wanted, state, NOW).step == StartContainer("a", 1)


def test_other_exit_codes_restart_nothing_else() -> None:
    wanted = spec("a", "b", policy="Never")
    wanted["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [ALL]}
    state = view(containers={"a": seen(EXITED, 1), "b": seen(RUNNING)})
    assert plan(wanted, state, NOW) == PodPlan()


@pytest.mark.parametrize(("probe", "seconds"), [("startup", 9.0), ("liveness", 5.0), ("", 30.0)])
def test_a_restart_has_the_grace_period_of_the_probe_that_failed(probe: str, seconds: float) -> None:
    wanted = spec("a")
    wanted["containers"][0] |= {
        "livenessProbe": {"terminationGracePeriodSeconds": 5},
        "startupProbe": {"terminationGracePeriodSeconds": 9},
    }
    state = view(containers={"a": seen(RUNNING, kill_message="failed", failed_probe=probe)})
    [stop] = plan(wanted, state, NOW).stops
    assert stop.grace_seconds == seconds
