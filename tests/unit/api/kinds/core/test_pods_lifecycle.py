"""Pods after their creation: status, subresources, grace period of deletion."""

import copy
from typing import Any

import pytest

from alcove.api.kinds.core import STRATEGIES
from alcove.api.kinds.core.pods.subresources import (
    prepare_ephemeral_containers,
    prepare_resize,
    validate_binding,
    validate_ephemeral_containers,
    validate_resize,
)
from alcove.api.objects import Object

PODS = STRATEGIES["pods"]


def messages(errors: Any) -> list[str]:
    return [str(error).split("\n")[0] for error in errors]


def pod(labels: dict[str, str] | None = None, **spec: Any) -> Object:
    made: Object = {
        "metadata": {"name": "p", "namespace": "n", "labels": labels or {}},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }
    PODS.default(made)
    return made


def stored(**spec: Any) -> Object:
    made = pod(**spec)
    PODS.prepare_create(made)
    return made


def running(**status: Any) -> Object:
    made = stored(restartPolicy="Never")
    made["spec"]["nodeName"] = "n1"
    made["status"].update(phase="Running", **status)
    return made


@pytest.mark.parametrize(
    ("node", "phase", "asked", "expected"),
    [
        ("n1", "Running", None, 30),
        ("n1", "Running", 5, 5),
        ("n1", "Running", 0, 0),
        ("n1", "Running", -3, 1),
        ("n1", "Pending", None, 30),
        ("n1", "Succeeded", None, 0),
        ("n1", "Failed", 60, 0),
        ("", "Pending", 60, 0),
    ],
)
def test_grace(node: str, phase: str, asked: int | None, expected: int) -> None:
    assert PODS.grace_seconds is not None
    made = stored()
    made["spec"]["nodeName"], made["status"]["phase"] = node, phase
    assert PODS.grace_seconds(made, asked) == expected


def test_field_selectors() -> None:
    made = running(podIPs=[{"ip": "10.0.0.5"}], nominatedNodeName="n2")
    made["spec"]["hostNetwork"] = True
    assert {field: read(made) for field, read in PODS.fields.items()} == {
        "spec.nodeName": "n1",
        "spec.restartPolicy": "Never",
        "spec.schedulerName": "default-scheduler",
        "spec.serviceAccountName": "",
        "spec.hostNetwork": "true",
        "status.phase": "Running",
        "status.podIP": "10.0.0.5",
        "status.podIPs": "10.0.0.5",
        "status.nominatedNodeName": "n2",
    }
    assert PODS.fields["status.podIP"]({}) == ""


def test_an_ended_container_stays_ended_unless_it_restarts() -> None:
    ended = [{"name": "c", "state": {"terminated": {"exitCode": 1}}}]
    old = running(containerStatuses=ended)
    new = copy.deepcopy(old)
    new["status"]["containerStatuses"] = [{"name": "c", "state": {"running": {}}}]
    assert messages(PODS.validate_status(new, old)) == [
        "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    ]
    old["spec"]["restartPolicy"] = "OnFailure"
    assert messages(PODS.validate_status(new, old)) == []
    old["spec"]["restartPolicy"] = "Never"
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}
    old["spec"]["containers"][0].update(restartPolicy="Never", restartPolicyRules=[rule])
    assert messages(PODS.validate_status(new, old)) == []


def test_a_status_without_its_qos_class_keeps_it() -> None:
    old = running()
    new = copy.deepcopy(old)
    del new["status"]["qosClass"]
    PODS.prepare_status(new, old)
    assert new["status"]["qosClass"] == "BestEffort"
    new["status"]["qosClass"] = "Guaranteed"
    assert messages(PODS.validate_status(new, old)) == [
        'status.qosClass: Invalid value: "Guaranteed": field is immutable'
    ]


def test_ephemeral_containers_are_added_never_changed() -> None:
    old = running()
    old["spec"]["ephemeralContainers"] = [{"name": "d", "image": "i", "terminationMessagePolicy": "File"}]
    new = copy.deepcopy(old)
    new["spec"]["nodeName"] = "elsewhere"
    new["spec"]["ephemeralContainers"].append({"name": "e", "image": "i"})
    PODS.default(new)
    PODS.default(old)
    prepare_ephemeral_containers(new, old)
    assert new["spec"]["nodeName"] == "n1"
    assert validate_ephemeral_containers(new, old) == []
    new["spec"]["ephemeralContainers"][0]["image"] = "j"
    assert messages(validate_ephemeral_containers(new, old)) == [
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "d" may not be changed'
    ]
    del new["spec"]["ephemeralContainers"][0]
    assert messages(validate_ephemeral_containers(new, old)) == [
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "d" may not be removed'
    ]


def test_resize_changes_cpu_and_memory_only() -> None:
    sized = {"requests": {"cpu": "1", "memory": "1Gi"}}
    old = stored(containers=[{"name": "c", "image": "i", "resources": sized}])
    new = copy.deepcopy(old)
    new["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    new["spec"]["containers"][0]["image"] = "other"
    prepare_resize(new, old)
    assert new["spec"]["containers"][0]["image"] == "i", "what is not about size is not taken"
    assert validate_resize(new, old) == []
    new["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2"}
    assert messages(validate_resize(new, old)) == [
        "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"
    ]
    new["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "2", "memory": "2Gi"},
        "limits": {"cpu": "2"},
    }
    assert validate_resize(new, old) == []
    new["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "2", "memory": "2Gi"},
        "limits": {"cpu": "2", "memory": "2Gi"},
    }
    assert messages(validate_resize(new, old)) == [
        'spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing'
    ]


def test_bindings() -> None:
    assert validate_binding({"target": {"kind": "Node", "name": "n"}}) == []
    assert validate_binding({"target": {"name": "n"}}) == []
    assert messages(validate_binding({"target": {"kind": "Pod"}})) == [
        'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"',
        "target.name: Required value",
    ]
