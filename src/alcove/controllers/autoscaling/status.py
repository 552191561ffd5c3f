"""An autoscaler's status: its conditions, and what it saw of each metric. Pure."""

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
    """What one metric asked for."""

    name: str
    """As events tell it: `cpu resource utilization (percentage of request)`."""
    replicas: int
    shown: Object
    """Its part of `status.currentMetrics`."""


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
    what = f"{source['name']} {'container resource' if 'container' in source else 'resource'}"
    name = what if desired.percent is None else f"{what} utilization (percentage of request)"
    return ObservedMetric(name, desired.replicas, {"type": kind, field: shown})


def updated(
    hpa: Object,
    current: int,
    desired: int,
    told: Sequence[Condition],
    metrics: Sequence[Object] | None,
    scaled_at: float | None,
    now: float,
) -> Object:
    """`metrics` None: those that were seen last are still shown."""
    there: Object = hpa.get("status") or {}
    status = {
        **there,
        "currentReplicas": current,
        "desiredReplicas": desired,
        "conditions": conditions.updated(there.get("conditions") or [], told, now),
    }
    if metrics is not None:
        status["currentMetrics"] = list(metrics)
    if scaled_at is not None:
        status["lastScaleTime"] = meta.format_time(scaled_at)
    if generation := hpa["metadata"].get("generation"):
        status["observedGeneration"] = generation
    return status
