"""Which nodes a daemon runs on, and how its pods are replaced."""

from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.controllers.daemonsets.fitting import NodeFit, fit, node_of, pinned
from alcove.controllers.daemonsets.plan import REVISION, DaemonSetPlan, plan, status

NOW = 1_700_000_000.0
YES, NO, STAYS = NodeFit(True, True), NodeFit(False, False), NodeFit(False, True)


def node(name: str = "n1", taints: list[Object] | None = None, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints or []}}


def affinity(**requirement: Any) -> Object:
    field = "matchFields" if requirement["key"] == "metadata.name" else "matchExpressions"
    terms = {"nodeSelectorTerms": [{field: [requirement]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def taint(key: str, effect: str, value: str = "") -> Object:
    return {"key": key, "effect": effect, "value": value}


@pytest.mark.parametrize(
    ("spec", "on", "expected"),
    [
        ({}, node(), YES),
        ({"nodeSelector": {"disk": "ssd"}}, node(disk="ssd"), YES),
        ({"nodeSelector": {"disk": "ssd"}}, node(disk="hdd"), NO),
        ({"nodeName": "n2"}, node(), NO),
        (affinity(key="disk", operator="In", values=["ssd"]), node(disk="ssd"), YES),
        (affinity(key="disk", operator="NotIn", values=["ssd"]), node(disk="ssd"), NO),
        (affinity(key="disk", operator="Exists"), node(), NO),
        (affinity(key="cores", operator="Gt", values=["4"]), node(cores="8"), YES),
        (affinity(key="cores", operator="Lt", values=["4"]), node(cores="8"), NO),
        (affinity(key="metadata.name", operator="In", values=["n1"]), node(), YES),
        ({}, node(taints=[taint("own", "NoSchedule")]), STAYS),
        ({}, node(taints=[taint("own", "NoExecute")]), NO),
        ({}, node(taints=[taint("own", "PreferNoSchedule")]), YES),
        ({}, node(taints=[taint("node.kubernetes.io/unschedulable", "NoSchedule")]), YES),
        ({}, node(taints=[taint("node.kubernetes.io/not-ready", "NoExecute")]), YES),
        ({}, node(taints=[taint("node.kubernetes.io/network-unavailable", "NoSchedule")]), STAYS),
        ({"hostNetwork": True}, node(taints=[taint("node.kubernetes.io/network-unavailable", "NoSchedule")]), YES),
        ({"tolerations": [{"operator": "Exists"}]}, node(taints=[taint("own", "NoExecute")]), YES),
        ({"tolerations": [{"key": "own", "value": "a"}]}, node(taints=[taint("own", "NoExecute", "b")]), NO),
    ],
)  # fmt: skip
def test_where_it_runs(spec: Object, on: Object, expected: NodeFit) -> None:
    assert fit(spec, on) == expected


def test_a_pod_is_bound_to_its_node_before_it_is_there() -> None:
    spec = {"affinity": {"podAffinity": {"kept": True}}, "containers": []}
    made = {"spec": pinned(spec, "n7")}
    assert node_of(made) == "n7" and made["spec"]["affinity"]["podAffinity"] == {"kept": True}
    assert "nodeAffinity" not in spec["affinity"], "the template is not changed"
    assert node_of({"spec": {**made["spec"], "nodeName": "n8"}}) == "n8"


def daemon_set(**rolling: Any) -> Object:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0, **rolling}}
    return {"metadata": {"name": "d", "generation": 1}, "spec": {"updateStrategy": strategy}}


def pod(name: str, on: str, state: str = "ready", revision: str = "new") -> Object:
    metadata: Object = {"name": name, "labels": {REVISION: revision}, "creationTimestamp": name}
    if state == "ending":
        metadata["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    phase = state if state == "Failed" else "Running"
    ready = {"type": "Ready", "status": "True" if state == "ready" else "False"}
    return {"metadata": metadata, "spec": {"nodeName": on}, "status": {"phase": phase, "conditions": [ready]}}


THREE = {"n1": YES, "n2": YES, "n3": YES}


def steps(made: DaemonSetPlan) -> tuple[list[str], list[str]]:
    return made.create, [each["metadata"]["name"] for each in made.delete]


def old(number: int, state: str = "ready") -> Object:
    return pod(f"old{number}", f"n{number}", state, "old")


@pytest.mark.parametrize(
    ("of", "owned", "fits", "create", "delete"),
    [
        (daemon_set(), [], THREE, ["n1", "n2", "n3"], []),
        (daemon_set(), [pod("a", "n1")], {"n1": YES, "n2": STAYS, "n3": NO}, [], []),
        (daemon_set(), [pod("a", "n1"), pod("b", "n2")], {"n1": NO, "n2": STAYS}, [], ["a"]),
        (daemon_set(), [pod("a", "n1"), pod("b", "n1")], {"n1": YES}, [], ["b"]),
        (daemon_set(), [pod("a", "n1", "Failed")], {"n1": YES}, [], ["a"]),
        (daemon_set(), [pod("a", "n1", "ending")], {"n1": YES}, [], []),
        (daemon_set(), [pod("a", "unknown")], {}, [], []),
        (daemon_set(), [old(1), old(2), old(3)], THREE, [], ["old1"]),
        (daemon_set(maxUnavailable="50%"), [old(1), old(2), old(3)], THREE, [], ["old1", "old2"]),
        (daemon_set(), [pod("a", "n1", "starting"), old(2), old(3)], THREE, [], []),
        (daemon_set(), [pod("a", "n1"), old(2, "starting"), old(3)], THREE, [], ["old2"]),
        (daemon_set(maxUnavailable=0, maxSurge=1), [old(1), old(2), old(3)], THREE, ["n1"], []),
        (
            daemon_set(maxUnavailable=0, maxSurge=1),
            [old(1), pod("z1", "n1", "starting"), old(2), old(3)], THREE, [], [],
        ),
        (daemon_set(maxUnavailable=0, maxSurge=1), [old(1), pod("z1", "n1"), old(2)], {"n1": YES}, [], ["old1"]),
        ({**daemon_set(), "spec": {"updateStrategy": {"type": "OnDelete"}}}, [old(1)], {"n1": YES}, [], []),
    ],
)  # fmt: skip
def test_what_it_does_next(
    of: Object, owned: list[Object], fits: dict[str, NodeFit], create: list[str], delete: list[str]
) -> None:
    assert steps(plan(of, owned, fits, "new", NOW)) == (create, delete)


def test_status_counts() -> None:
    owned = [pod("a", "n1"), pod("b", "n2", "starting", "old"), pod("c", "n4")]
    new_status = status(daemon_set(), owned, {**THREE, "n4": STAYS}, "new", NOW)
    assert new_status == {
        "currentNumberScheduled": 2,
        "desiredNumberScheduled": 3,
        "numberMisscheduled": 1,
        "numberReady": 1,
        "updatedNumberScheduled": 1,
        "numberAvailable": 1,
        "numberUnavailable": 2,
        "observedGeneration": 1,
    }
