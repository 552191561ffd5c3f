from typing import Any

import pytest

from alcove.api.columns import pods

NOW = 1_714_557_600.0  # 2024-05-01T10:00:00Z


def running(name: str = "web", *, ready: bool = True, restarts: int = 0, **more: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "restartCount": restarts, "state": {"running": {}}, **more}


def waiting(reason: str, name: str = "web", **more: Any) -> dict[str, Any]:
    return {"name": name, "ready": False, "restartCount": 0, "state": {"waiting": {"reason": reason}}, **more}


def ended(code: int, reason: str = "", name: str = "web", **more: Any) -> dict[str, Any]:
    terminated = {"exitCode": code, "reason": reason, **more}
    return {"name": name, "ready": False, "restartCount": 0, "state": {"terminated": terminated}}


def pod(
    *statuses: dict[str, Any],
    inits: tuple[dict[str, Any], ...] = (),
    sidecars: tuple[str, ...] = (),
    conditions: dict[str, str] | None = None,
    deleted: bool = False,
    **status: Any,
) -> dict[str, Any]:
    init_specs = [
        {"name": init["name"], **({"restartPolicy": "Always"} if init["name"] in sidecars else {})}
        for init in inits
    ]
    return {
        "metadata": {"name": "x", **({"deletionTimestamp": "2024-05-01T09:00:00Z"} if deleted else {})},
        "spec": {
            "containers": [{"name": each["name"]} for each in statuses] or [{"name": "web"}],
            "initContainers": init_specs,
        },
        "status": {
            "containerStatuses": list(statuses),
            "initContainerStatuses": list(inits),
            "conditions": [{"type": kind, "status": value} for kind, value in (conditions or {}).items()],
            **status,
        },
    }


CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "pending": (pod(phase="Pending"), "0/1", "Pending"),
    "gated": (
        {"spec": {"containers": [{}]}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}},
        "0/1",
        "SchedulingGated",
    ),
    "creating": (pod(waiting("ContainerCreating"), phase="Pending"), "0/1", "ContainerCreating"),
    "running": (pod(running(), phase="Running"), "1/1", "Running"),
    "not ready": (pod(running(ready=False), phase="Running"), "0/1", "Running"),
    "crashing": (pod(running("a"), waiting("CrashLoopBackOff", "b"), phase="Running"), "1/2", "CrashLoopBackOff"),
    "completed": (pod(ended(0, "Completed"), phase="Succeeded"), "0/1", "Completed"),
    "failed without reason": (pod(ended(3), phase="Failed"), "0/1", "ExitCode:3"),
    "killed": (pod(ended(137, signal=9), phase="Failed"), "0/1", "Signal:9"),
    "evicted": (pod(phase="Failed", reason="Evicted"), "0/1", "Evicted"),
    "one completed, one running": (
        pod(ended(0, "Completed", "a"), running("b"), phase="Running", conditions={"Ready": "True"}),
        "1/2",
        "Running",
    ),
    "one completed, pod not ready": (pod(ended(0, "Completed", "a"), running("b"), phase="Running"), "1/2", "NotReady"),
    "initializing": (pod(inits=(ended(0, "Completed", "i"), running("j")), phase="Pending"), "0/1", "Init:1/2"),
    "init waits": (pod(inits=(waiting("PodInitializing", "i"),), phase="Pending"), "0/1", "Init:0/1"),
    "init crashes": (pod(inits=(waiting("CrashLoopBackOff", "i"),), phase="Pending"), "0/1", "Init:CrashLoopBackOff"),
    "init failed": (pod(inits=(ended(1, "Error", "i"),), phase="Pending"), "0/1", "Init:Error"),
    "init failed silently": (pod(inits=(ended(2, "", "i"),), phase="Pending"), "0/1", "Init:ExitCode:2"),
    "initialized": (pod(running(), inits=(ended(0, "Completed", "i"),), phase="Running"), "1/1", "Running"),
    "sidecar runs": (
        pod(running(), inits=(running("s", started=True),), sidecars=("s",), phase="Running"),
        "2/2",
        "Running",
    ),
    "sidecar starts": (
        pod(inits=(running("s", ready=False, started=False),), sidecars=("s",), phase="Pending"),
        "0/2",
        "Init:0/1",
    ),
    "sidecar restarts after initialization": (
        pod(running(), inits=(running("s", started=False),), sidecars=("s",), phase="Running", conditions={"Initialized": "True"}),
        "1/2",
        "Init:0/1",
    ),
    "terminating": (pod(running(), phase="Running", deleted=True), "1/1", "Terminating"),
    "completed and deleted": (pod(ended(0, "Completed"), phase="Succeeded", deleted=True), "0/1", "Completed"),
    "node lost": (pod(phase="Running", reason="NodeLost", deleted=True), "0/1", "Unknown"),
    "nothing known": ({}, "0/0", "Unknown"),
}  # fmt: skip


@pytest.mark.parametrize(("obj", "ready", "status"), CASES.values(), ids=CASES.keys())
def test_ready_and_status(obj: dict[str, Any], ready: str, status: str) -> None:
    summary = pods.summarize(obj)
    assert f"{summary.ready}/{summary.total}" == ready
    assert summary.status == status


def row(obj: dict[str, Any]) -> dict[str, Any]:
    return {column.name: column.value(obj, NOW) for column in pods.COLUMNS}


def test_restarts_show_how_long_ago_the_last_was() -> None:
    last = {"terminated": {"finishedAt": "2024-05-01T09:55:00Z"}}
    older = {"terminated": {"finishedAt": "2024-05-01T07:55:00Z"}}
    obj = pod(
        running("a", restarts=2, lastState=older), running("b", restarts=1, lastState=last), phase="Running"
    )
    assert row(obj)["Restarts"] == "3 (5m ago)"


def test_restarts_of_init_containers_count_only_while_initializing() -> None:
    init = ended(0, "Completed", "i") | {"restartCount": 4}
    assert row(pod(running(restarts=1), inits=(init,), phase="Running"))["Restarts"] == "1"
    assert (
        row(pod(inits=(waiting("CrashLoopBackOff", "i", restartCount=4),), phase="Pending"))["Restarts"]
        == "4"
    )


def test_wide_columns() -> None:
    obj = pod(running(), phase="Running", podIPs=[{"ip": "10.0.0.7"}], conditions={"a/b": "True"})
    obj["spec"].update(nodeName="n1", readinessGates=[{"conditionType": "a/b"}, {"conditionType": "c/d"}])
    shown = row(obj)
    assert (shown["IP"], shown["Node"], shown["Nominated Node"], shown["Readiness Gates"]) == (
        "10.0.0.7",
        "n1",
        "<none>",
        "1/2",
    )
    assert [column.name for column in pods.COLUMNS if column.priority] == [
        "IP",
        "Node",
        "Nominated Node",
        "Readiness Gates",
    ]
