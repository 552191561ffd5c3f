import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.conversions import autoscaling

PREFIX = "autoscaling.alpha.kubernetes.io/"
SELECTOR = {"matchLabels": {"a": "b"}}
METRICS = [
    {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
    },
    {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 70}},
    },
    {
        "type": "ContainerResource",
        "containerResource": {
            "name": "cpu",
            "container": "c",
            "target": {"type": "Utilization", "averageUtilization": 60},
        },
    },
    {
        "type": "Pods",
        "pods": {
            "metric": {"name": "m", "selector": SELECTOR},
            "target": {"type": "AverageValue", "averageValue": "5"},
        },
    },
    {
        "type": "Object",
        "object": {
            "describedObject": {"kind": "Ingress", "name": "i"},
            "metric": {"name": "m"},
            "target": {"type": "Value", "value": "9"},
        },
    },
    {
        "type": "Object",
        "object": {
            "describedObject": {"kind": "Ingress", "name": "i"},
            "metric": {"name": "m"},
            "target": {"type": "AverageValue", "averageValue": "9"},
        },
    },
    {
        "type": "External",
        "external": {
            "metric": {"name": "m", "selector": SELECTOR},
            "target": {"type": "Value", "value": "3"},
        },
    },
]
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


def v2(metrics: list[Any], **spec: Any) -> dict[str, Any]:
    target = {"kind": "Deployment", "name": "d"}
    full = {"scaleTargetRef": target, "maxReplicas": 3, **({"metrics": metrics} if metrics else {}), **spec}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": full,
    }


def v1(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 3, **spec},
    }


def test_cpu_target_is_the_one_metric_of_v1() -> None:
    assert autoscaling.to_storage(v1(targetCPUUtilizationPercentage=80)) == v2([CPU])
    assert autoscaling.from_storage(v2([CPU])) == v1(targetCPUUtilizationPercentage=80)


@given(st.lists(st.sampled_from(METRICS), max_size=4), st.booleans(), st.booleans())
def test_nothing_is_lost_through_v1(metrics: list[Any], has_cpu: bool, has_behavior: bool) -> None:
    """A v1 client reads and writes back: the stored v2 object stays, the CPU metric at the end."""
    behavior = {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 9}}} if has_behavior else {}
    stored = v2([*metrics, CPU] if has_cpu else metrics, **behavior)
    stored["metadata"]["annotations"] = {"own": "kept"}
    stored["status"] = {
        "currentReplicas": 2,
        "conditions": [{"type": "ScalingActive", "status": "True"}],
        "currentMetrics": [
            {"type": "Pods", "pods": {"metric": {"name": "m"}, "current": {"averageValue": "4"}}}
        ],
    }
    before = copy.deepcopy(stored)

    served = autoscaling.from_storage(stored)

    assert autoscaling.to_storage(served) == before
    assert stored == before, "converted, not changed"
    assert "metrics" not in served["spec"]
    assert "behavior" not in served["spec"]
    assert "conditions" not in served["status"]


def test_annotations_carry_v1s_own_form_of_metrics() -> None:
    served = autoscaling.from_storage(v2([METRICS[3], METRICS[5], METRICS[6]]))
    assert orjson.loads(served["metadata"]["annotations"][f"{PREFIX}metrics"]) == [
        {"type": "Pods", "pods": {"metricName": "m", "selector": SELECTOR, "targetAverageValue": "5"}},
        {
            "type": "Object",
            "object": {"target": {"kind": "Ingress", "name": "i"}, "metricName": "m", "averageValue": "9"},
        },
        {"type": "External", "external": {"metricName": "m", "metricSelector": SELECTOR, "targetValue": "3"}},
    ]


def test_current_cpu_has_its_own_field() -> None:
    stored = v2([CPU]) | {
        "status": {
            "currentMetrics": [
                {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7}}}
            ]
        }
    }
    assert autoscaling.from_storage(stored)["status"] == {"currentCPUUtilizationPercentage": 7}


@pytest.mark.parametrize(
    "text", ["", "{", "1", "null", '"x"', "[1,{}]", '[{"type":"Pods"}]', '[{"type":["a"]}]']
)
def test_annotation_that_is_no_metrics_is_dropped(text: str) -> None:
    obj = v1()
    obj["metadata"]["annotations"] = {
        f"{PREFIX}{name}": text for name in ("metrics", "behavior", "conditions")
    }
    obj["status"] = {}
    converted = autoscaling.to_storage(obj)
    assert converted["metadata"]["annotations"] == {}
    assert "metrics" not in converted["spec"]
