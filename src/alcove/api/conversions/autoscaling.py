"""Converts HorizontalPodAutoscaler `autoscaling/v1` to and from `v2`, the storage version.

v1 has one metric, CPU utilization. The remaining fields of v2 are kept in annotations, as in Kubernetes, so
that a v1 client that reads an object and writes it back loses nothing.
"""

from typing import Any

import orjson

from alcove.api.conversions import metrics
from alcove.api.objects import Object

_PREFIX = "autoscaling.alpha.kubernetes.io/"
_METRICS = f"{_PREFIX}metrics"
_BEHAVIOR = f"{_PREFIX}behavior"
_CURRENT_METRICS = f"{_PREFIX}current-metrics"
_CONDITIONS = f"{_PREFIX}conditions"
_ALL = frozenset((_METRICS, _BEHAVIOR, _CURRENT_METRICS, _CONDITIONS))


def to_storage(obj: Object) -> Object:
    """Return the v2 form of a v1 object. An invalid annotation is dropped, as in Kubernetes."""
    carried = {name: _unpack(text) for name, text in _annotations(obj).items() if name in _ALL}
    converted = {**obj, "apiVersion": "autoscaling/v2", "metadata": _without(obj)}
    if isinstance(obj.get("spec"), dict):
        converted["spec"] = _spec_to_storage(obj["spec"], carried)
    if isinstance(obj.get("status"), dict):
        converted["status"] = _status_to_storage(obj["status"], carried)
    return converted


def from_storage(obj: Object) -> Object:
    """Return the v1 form of a v2 object."""
    carried: dict[str, Any] = {}
    converted = {**obj, "apiVersion": "autoscaling/v1"}
    if isinstance(obj.get("spec"), dict):
        converted["spec"] = _spec_from_storage(obj["spec"], carried)
    if isinstance(obj.get("status"), dict):
        converted["status"] = _status_from_storage(obj["status"], carried)
    packed = {name: orjson.dumps(value).decode() for name, value in carried.items() if value}
    if packed:
        meta = obj.get("metadata") or {}
        converted["metadata"] = {**meta, "annotations": {**_annotations(obj), **packed}}
    return converted


def _spec_to_storage(spec: Object, carried: dict[str, Any]) -> Object:
    converted = {field: value for field, value in spec.items() if field != "targetCPUUtilizationPercentage"}
    specs = metrics.specs_to_v2(carried.get(_METRICS))
    percentage = spec.get("targetCPUUtilizationPercentage")
    if percentage is not None:
        specs.append(_cpu("target", {"type": "Utilization", "averageUtilization": percentage}))
    if specs:
        converted["metrics"] = specs
    if isinstance(carried.get(_BEHAVIOR), dict):
        converted["behavior"] = carried[_BEHAVIOR]
    return converted


def _spec_from_storage(spec: Object, carried: dict[str, Any]) -> Object:
    converted = {field: value for field, value in spec.items() if field not in ("metrics", "behavior")}
    others = []
    for metric in spec.get("metrics") or ():
        percentage = _cpu_utilization(metric, "target")
        if percentage is not None and "targetCPUUtilizationPercentage" not in converted:
            converted["targetCPUUtilizationPercentage"] = percentage
        else:
            others.append(metric)
    carried[_METRICS] = metrics.specs_to_v1(others)
    carried[_BEHAVIOR] = spec.get("behavior")
    return converted


def _status_to_storage(status: Object, carried: dict[str, Any]) -> Object:
    converted = {
        field: value for field, value in status.items() if field != "currentCPUUtilizationPercentage"
    }
    current = metrics.statuses_to_v2(carried.get(_CURRENT_METRICS))
    percentage = status.get("currentCPUUtilizationPercentage")
    if percentage is not None:
        current.append(_cpu("current", {"averageUtilization": percentage}))
    if current:
        converted["currentMetrics"] = current
    if isinstance(carried.get(_CONDITIONS), list):
        converted["conditions"] = carried[_CONDITIONS]
    return converted


def _status_from_storage(status: Object, carried: dict[str, Any]) -> Object:
    converted = {
        field: value for field, value in status.items() if field not in ("currentMetrics", "conditions")
    }
    for metric in status.get("currentMetrics") or ():
        percentage = _cpu_utilization(metric, "current")
        if percentage is not None:
            converted["currentCPUUtilizationPercentage"] = percentage
    carried[_CURRENT_METRICS] = metrics.statuses_to_v1(status.get("currentMetrics") or [])
    carried[_CONDITIONS] = status.get("conditions")
    return converted


def _cpu(side: str, amount: Object) -> Object:
    return {"type": "Resource", "resource": {"name": "cpu", side: amount}}


def _cpu_utilization(metric: Object, side: str) -> Any:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    return (resource.get(side) or {}).get("averageUtilization")


def _annotations(obj: Object) -> dict[str, Any]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def _without(obj: Object) -> Object:
    """Return the object without the annotations that carry v2 fields."""
    meta: Object = obj.get("metadata") or {}
    if not _ALL & _annotations(obj).keys():
        return meta
    remaining = {name: text for name, text in _annotations(obj).items() if name not in _ALL}
    return {**meta, "annotations": remaining}


def _unpack(text: Any) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return None
