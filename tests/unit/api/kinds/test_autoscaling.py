"""Autoscalers: defaults of v1 and v2, metrics, behaviour."""

import copy

import pytest

from alcove.api.kinds.autoscaling import STRATEGIES
from alcove.api.objects import Object

STRATEGY = STRATEGIES["horizontalpodautoscalers"]
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def hpa(version: str = "v2", **spec: object) -> Object:
    given: Object = {"maxReplicas": 5, "scaleTargetRef": TARGET, **spec}
    return {"apiVersion": f"autoscaling/{version}", "metadata": {"name": "h"}, "spec": copy.deepcopy(given)}


def messages(obj: Object) -> list[str]:
    STRATEGY.default(obj)
    return [str(error) for error in STRATEGY.validate(obj)]


def with_metric(**metric: object) -> Object:
    return hpa(metrics=[metric])


CPU = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
METRIC = "spec.metrics[0]"
NO_GROUP = "apiVersion must specify API group"
CASES: list[tuple[Object, list[str]]] = [
    (hpa(), []),
    (hpa("v1", targetCPUUtilizationPercentage=50), []),
    (hpa("v1", targetCPUUtilizationPercentage=0), [
        f"{METRIC}.resource.target.averageUtilization: Invalid value: 0: must be greater than 0"]),
    (hpa(maxReplicas=0), [
        "spec.maxReplicas: Required value: must be set and greater than 0",
        "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`"]),
    (hpa(minReplicas=0), ["spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"]),
    (hpa(minReplicas=6), ["spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`"]),
    (hpa(scaleTargetRef={}), [
        "spec.scaleTargetRef.kind: Required value",
        "spec.scaleTargetRef.name: Required value",
        f'spec.scaleTargetRef.apiVersion: Invalid value: "": {NO_GROUP}']),
    (hpa(scaleTargetRef={**TARGET, "kind": "a/b"}), [
        "spec.scaleTargetRef.kind: Invalid value: \"a/b\": may not contain '/'"]),
    (hpa(scaleTargetRef={**TARGET, "apiVersion": "v1"}), [f'spec.scaleTargetRef.apiVersion: Invalid value: "v1": {NO_GROUP}']),
    (hpa(scaleTargetRef={"apiVersion": "v1", "kind": "ReplicationController", "name": "r"}), []),
    (hpa(scaleTargetRef={**TARGET, "apiVersion": "a/b/c"}), [
        'spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c']),
    (with_metric(), [
        f"{METRIC}.type: Required value: must specify a metric source type",
        f'{METRIC}.type: Unsupported value: "": supported values: "ContainerResource", "External", "Object", "Pods", "Resource"']),
    (with_metric(type="Resource"), [f"{METRIC}.resource: Required value: must populate information for the given metric source"]),
    (with_metric(type="Resource", resource=CPU, pods={"metric": {"name": "x"}, "target": {"type": "AverageValue", "averageValue": "1"}}), [
        f"{METRIC}.pods: Forbidden: must populate the given metric source only"]),
    (with_metric(type="Resource", resource={"target": {"type": "Utilization"}}), [
        f"{METRIC}.resource.name: Required value: must specify a resource name",
        f"{METRIC}.resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization"]),
    (with_metric(type="Resource", resource={"name": "cpu", "target": {"type": "Odd", "averageValue": "-1", "averageUtilization": 1}}), [
        f'{METRIC}.resource.target.type: Invalid value: "Odd": must be either Utilization, Value, or AverageValue',
        f'{METRIC}.resource.target.averageValue: Invalid value: "-1": must be positive',
        f"{METRIC}.resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization"]),
    (with_metric(type="ContainerResource", containerResource={"name": "cpu", "container": "c", "target": CPU["target"]}), []),
    (with_metric(type="ContainerResource", containerResource={"name": "speed", "target": CPU["target"]}), [
        f'{METRIC}.containerResource.name: Invalid value: "speed": must be a standard resource type or fully qualified',
        f'{METRIC}.containerResource.name: Invalid value: "speed": must be a standard resource for containers',
        f"{METRIC}.containerResource.container: Required value: must specify a container"]),
    (with_metric(type="Pods", pods={"metric": {"name": "a/b"}, "target": {"type": "AverageValue"}}), [
        f"{METRIC}.pods.metric.name: Invalid value: \"a/b\": may not contain '/'",
        f"{METRIC}.pods.target.averageValue: Required value: must specify a positive target averageValue"]),
    (with_metric(type="External", external={"metric": {"name": "q"}, "target": {"type": "Value", "value": "1", "averageValue": "1"}}), [
        f"{METRIC}.external.target.value: Forbidden: may not set both a target value for metric and a per-pod target"]),
    (with_metric(type="Object", object={"metric": {"name": "q"}, "describedObject": {"kind": "Service", "name": "s"}, "target": {"type": "Value", "value": 0}}), [
        f"{METRIC}.object.target.value: Invalid value: 0: must be positive"]),
    (with_metric(type="Object", object={"metric": {}, "describedObject": {"kind": "Service", "name": "s"}, "target": {"type": "Value"}}), [
        f"{METRIC}.object.metric.name: Required value: must specify a metric name",
        f"{METRIC}.object.target.averageValue: Required value: must set either a target value or averageValue"]),
    (hpa(behavior={"scaleUp": {"policies": [], "selectPolicy": "Any", "stabilizationWindowSeconds": 3601}}), [
        "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600",
        'spec.behavior.scaleUp.selectPolicy: Unsupported value: "Any": supported values: "Disabled", "Max", "Min"',
        "spec.behavior.scaleUp.policies: Required value: must specify at least one Policy"]),
    (hpa(behavior={"scaleDown": {"policies": [{"type": "Nodes", "value": 0, "periodSeconds": 1801}], "tolerance": "-0.1"}}), [
        'spec.behavior.scaleDown.policies[0].type: Unsupported value: "Nodes": supported values: "Percent", "Pods"',
        "spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero",
        "spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
        'spec.behavior.scaleDown.tolerance: Invalid value: "-0.1": must be greater than or equal to 0']),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), CASES)
def test_validate(obj: Object, expected: list[str]) -> None:
    assert messages(obj) == expected


def test_defaults_of_v2() -> None:
    obj = hpa(behavior={"scaleDown": {"stabilizationWindowSeconds": 60}})
    STRATEGY.default(obj)
    assert obj["spec"]["minReplicas"] == 1
    assert obj["spec"]["metrics"] == [
        {
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
        }
    ]
    percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
    assert obj["spec"]["behavior"] == {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, percent],
        },
        "scaleDown": {"stabilizationWindowSeconds": 60, "selectPolicy": "Max", "policies": [percent]},
    }


def test_defaults_of_v1() -> None:
    obj = hpa("v1")
    STRATEGY.default(obj)
    assert obj["spec"] == {"maxReplicas": 5, "minReplicas": 1, "scaleTargetRef": TARGET}


def test_status_counts_are_not_negative() -> None:
    errors = STRATEGY.validate_status({"status": {"currentReplicas": -1}}, {})
    assert [str(error) for error in errors] == [
        "status.currentReplicas: Invalid value: -1: must be greater than or equal to 0"
    ]
