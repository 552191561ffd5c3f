"""An autoscaler's status: conditions and current metrics. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from alcove.api import meta, quantity
from alcove.api.objects import Object
from alcove.api.quantity import Quantity
from alcove.controllers import conditions
from alcove.controllers.autoscaling.usage import Recommendation
from alcove.controllers.conditions import Condition

ABLE, ACTIVE, LIMITED = "AbleToScale", "ScalingActive", "ScalingLimited"

GOT_SCALE = Condition(
    ABLE, True, "SucceededGetScale", "the HPA controller was able to get the target's current scale"
)
DISABLED = Condition(
    ACTIVE, False, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero"
)
NO_SELECTOR = Condition(ACTIVE, False, "InvalidSelector", "the HPA target's scale is missing a selector")


class ObservedMetric(Struct, frozen=True):
    """The replicas that one metric recommends."""

    name: str
    """As shown in events: `cpu resource utilization (percentage of request)`."""
    replicas: int
    shown: Object
    """The metric's entry in `status.currentMetrics`."""


def observed_metric(metric: Object, desired: Recommendation) -> ObservedMetric:
    kind = metric["type"]
    field = kind[0].lower() + kind[1:]
    source = metric[field]
    current: Object = {"averageValue": str(Quantity(desired.average_milli * quantity.MILLI))}
    if desired.percent is not None:
        current["averageUtilization"] = desired.percent
    shown = {"name": source["name"], "current": current}
    if "container" in source:
        shown["container"] = source["container"]
    description = f"{source['name']} {'container resource' if 'container' in source else 'resource'}"
    name = description if desired.percent is None else f"{description} utilization (percentage of request)"
    return ObservedMetric(name, desired.replicas, {"type": kind, field: shown})


_LABELS = {"Pods": "pods", "External": "external"}


def observed_custom_metric(metric: Object, desired: Recommendation, field: str) -> ObservedMetric:
    """Of a metric of type Pods, Object or External; `field` is that of the current value: `value` or
    `averageValue`."""
    kind = metric["type"]
    source = metric[kind.lower()]
    current = {field: str(Quantity(desired.average_milli * quantity.MILLI))}
    shown: Object = {"metric": source["metric"], "current": current}
    if kind == "Object":
        shown["describedObject"] = source["describedObject"]
    label = _LABELS.get(kind) or source["describedObject"]["kind"]
    name = f"{label} metric {source['metric']['name']}"
    return ObservedMetric(name, desired.replicas, {"type": kind, kind.lower(): shown})


def updated(
    hpa: Object,
    current: int,
    desired: int,
    desired_conditions: Sequence[Condition],
    metrics: Sequence[Object] | None,
    scaled_at: float | None,
    now: float,
) -> Object:
    """The whole new status. If `metrics` is None, the current metrics stay as they are."""
    old_status: Object = hpa.get("status") or {}
    status = {
        **old_status,
        "currentReplicas": current,
        "desiredReplicas": desired,
        "conditions": conditions.updated(old_status.get("conditions") or [], desired_conditions, now),
    }
    if metrics is not None:
        status["currentMetrics"] = list(metrics)
    if scaled_at is not None:
        status["lastScaleTime"] = meta.format_time(scaled_at)
    if generation := hpa["metadata"].get("generation"):
        status["observedGeneration"] = generation
    return status
