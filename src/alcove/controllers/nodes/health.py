"""Whether a node is still heard of, and what its conditions say once it is not. Pure.

A node is heard of when its lease is renewed or its status is written. What counts is when we heard it, by
our own clock: nodes' clocks may be wrong.
"""

from __future__ import annotations

from msgspec import Struct

from alcove.api import meta
from alcove.api.objects import Object, get

GRACE_SECONDS = 50.0
STARTUP_GRACE_SECONDS = 60.0
"""For a node that has not yet said anything of itself."""
KEPT_BY_NODE = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class NodeHealth(Struct, frozen=True):
    conditions: list[Object] | None = None
    """What to write; None: they stay as they are."""
    look_again_seconds: float | None = None
    """When it could be lost; None: it is."""


def status_of(node: Object, type_: str) -> str:
    """True, False or Unknown; empty: the node does not say."""
    for condition in get(node, "status", "conditions", default=()):
        if condition.get("type") == type_:
            return condition.get("status") or ""
    return ""


def is_ready(node: Object) -> bool:
    return status_of(node, "Ready") == "True"


def grace_seconds(node: Object) -> float:
    return GRACE_SECONDS if status_of(node, "Ready") else STARTUP_GRACE_SECONDS


def judge(node: Object, heard: float, now: float) -> NodeHealth:
    left = heard + grace_seconds(node) - now
    if left > 0:
        return NodeHealth(look_again_seconds=left)
    there = get(node, "status", "conditions", default=[])
    unknown = _unknown(node, there, now)
    return NodeHealth(unknown if unknown != there else None)


def _unknown(node: Object, there: list[Object], now: float) -> list[Object]:
    result = [_silenced(each, now) if each.get("type") in KEPT_BY_NODE else each for each in there]
    told = {each.get("type") for each in there}
    created = node["metadata"].get("creationTimestamp")
    for type_ in KEPT_BY_NODE:
        if type_ not in told:
            never = {
                "type": type_,
                "status": "Unknown",
                "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": created,
                "lastTransitionTime": meta.format_time(now),
            }
            result.append(never)
    return result


def _silenced(condition: Object, now: float) -> Object:
    if condition.get("status") == "Unknown":
        return condition
    return {
        **condition,
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": meta.format_time(now),
    }
