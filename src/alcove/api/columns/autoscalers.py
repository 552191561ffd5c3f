"""A HorizontalPodAutoscaler's columns: each metric's value beside its target."""

from collections.abc import Sequence
from typing import Any

from alcove.api import objects
from alcove.api.columns.base import AGE, NAME, NONE, UNKNOWN, UNSET, at, integer
from alcove.api.kind import PrinterColumn
from alcove.api.objects import Object

_METRICS_SHOWN_MAX = 2


def _reference(obj: Object, _now: float) -> str:
    target = objects.get(obj, "spec", "scaleTargetRef", default={})
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _targets(obj: Object, _now: float) -> str:
    desired: Sequence[Object] = objects.get(obj, "spec", "metrics", default=())
    current: Sequence[Object] = objects.get(obj, "status", "currentMetrics", default=())
    if not desired:
        return _cpu_target(obj)
    shown = [
        _metric(spec, current[index] if index < len(current) else {}) for index, spec in enumerate(desired)
    ]
    text = ", ".join(shown[:_METRICS_SHOWN_MAX])
    more = len(shown) - _METRICS_SHOWN_MAX
    return f"{text} + {more} more..." if more > 0 else text


def _cpu_target(obj: Object) -> str:
    """v1 has only this metric, in dedicated fields."""
    target = objects.get(obj, "spec", "targetCPUUtilizationPercentage")
    if target is None:
        return NONE
    current = objects.get(obj, "status", "currentCPUUtilizationPercentage")
    return f"cpu: {_percent(current, UNKNOWN)}/{target}%"


def _metric(spec: Object, status: Object) -> str:
    kind = spec.get("type", "")
    source = kind[:1].lower() + kind[1:]
    target = objects.get(spec, source, "target", default={})
    current = objects.get(status, source, "current", default={}) if status.get("type") == kind else {}
    if kind in ("Resource", "ContainerResource"):
        return f"{objects.get(spec, source, 'name', default='')}: {_resource(target, current)}"
    if target.get("averageValue") is not None:
        average = f"{current.get('averageValue', UNKNOWN)}/{target['averageValue']}"
        return average if kind == "Pods" else f"{average} (avg)"
    return f"{current.get('value', UNKNOWN)}/{target.get('value', UNKNOWN)}"


def _resource(target: Object, current: Object) -> str:
    if target.get("averageValue") is not None:
        return f"{current.get('averageValue', UNKNOWN)}/{target['averageValue']}"
    return f"{_percent(current.get('averageUtilization'), UNKNOWN)}/{_percent(target.get('averageUtilization'), '<auto>')}"


def _percent(value: Any, otherwise: str) -> str:
    return otherwise if value is None else f"{value}%"


COLUMNS = (
    NAME,
    PrinterColumn("Reference", _reference, description="Object that is scaled."),
    PrinterColumn("Targets", _targets, description="Current and target value of each metric."),
    PrinterColumn(
        "MinPods", at("spec", "minReplicas", default=UNSET), description="Minimum number of replicas."
    ),
    PrinterColumn("MaxPods", at("spec", "maxReplicas", default=0), description="Maximum number of replicas."),
    integer("Replicas", "Current number of replicas.", "status", "currentReplicas"),
    AGE,
)
