"""Trimming changes nothing that scheduling sees."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from alcove.scheduler.nodes import ZONE, read_node
from alcove.scheduler.object_trimming import trim_node, trim_pod
from alcove.scheduler.pod_tracker import is_same, read_placement
from alcove.scheduler.requests import NOT_RESIZED, read_resized
from alcove.testing.scheduling import TENANT, Scene, asking, far, near, node, pod, spread, term, wishes

EVERYTHING: list[dict[str, Any]] = [
    {},
    {"cpu": "1", "memory": "1Gi", "priority": 7, "preemptionPolicy": "Never"},
    {
        "containers": asking(cpu="1", gpu="2"),
        "overhead": {"cpu": "1"},
        "resources": {"requests": {"cpu": "3"}},
    },
    {
        "initContainers": [
            {"name": "i", "image": "i:1", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
        ]
    },
    {
        "containers": [
            {"name": "c", "image": "c", "ports": [{"containerPort": 1, "hostPort": 80, "hostIP": "10.0.0.1"}]}
        ]
    },
    {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "runtimeClassName": "gvisor"},
    {"affinity": {**near(term({"a": "b"})), **far(term({"c": "d"}, ZONE))}},
    {"affinity": wishes(3, term({"a": "b"}))},
    {"topologySpreadConstraints": [spread({"a": "b"}, ZONE)], "schedulerName": "packing-scheduler"},
    {"owner": "rs-1"},
    {"schedulingGates": [{"name": "g"}]},
    {"resourceClaims": [{"name": "gpu"}]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "w", "emptyDir": {}}]},
    {"volumes": [{"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]},
    {
        "volumes": [
            {"name": "i", "image": {"reference": "big:1"}},
            {"name": "r", "rbd": {"monitors": ["m"], "image": "i"}},
        ]
    },
]


def _dressed(spec: dict[str, Any]) -> Any:
    """With all that real pods have besides."""
    made = pod("p", {"app": "web"}, **spec)
    made["metadata"] |= {
        "annotations": {"a": "x" * 100},
        "managedFields": [{}],
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    for container in made["spec"]["containers"]:
        container |= {
            "command": ["sleep"],
            "env": [{"name": "A", "value": "B"}],
            "volumeMounts": [{"name": "v"}],
        }
    made["spec"].setdefault("volumes", []).append({"name": "kube-api-access-xyz12", "projected": {}})
    made["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "Ready"}],
        "startTime": "2026-01-01T00:00:00Z",
    }
    return made


@pytest.mark.parametrize("spec", EVERYTHING)
def test_a_trimmed_pod_is_the_same_to_the_scheduler(spec: dict[str, Any]) -> None:
    scene = Scene(node("n"))
    whole = _dressed(spec)
    small = trim_pod(copy.deepcopy(whole))
    first, second = scene.pod(whole), scene.pod(small)
    assert is_same(first, second)
    assert (first.created, first.started, first.tenant) == (second.created, second.started, TENANT)
    assert read_placement(whole) == read_placement(small)
    assert "command" not in str(small) and "managedFields" not in str(small)


def test_resizes_survive_trimming() -> None:
    running = _dressed({"cpu": "2", "on": "n"})
    status = {"name": "main", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}
    running["status"] |= {"containerStatuses": [{**status, "image": "i"}], "phase": "Running"}
    running["status"]["conditions"].append({"type": "PodResizePending", "reason": "Infeasible"})
    assert read_resized(trim_pod(copy.deepcopy(running))) == read_resized(running) != NOT_RESIZED


def test_a_trimmed_node_is_the_same_to_the_scheduler() -> None:
    whole = node(
        "n",
        {ZONE: "z"},
        taints=["a=b:NoSchedule"],
        unschedulable=True,
        handlers=["runsc"],
        images={"i:1": 5},
        gpu="2",
    )
    whole["status"] |= {"conditions": [{"type": "Ready"}], "nodeInfo": {"kernelVersion": "6"}}
    small = trim_node(copy.deepcopy(whole))
    assert read_node(small) == read_node(whole)
    assert "nodeInfo" not in str(small)
