"""Whether a node has sent a heartbeat in time, and its conditions once it has not. Pure.

A renewal of the node's lease or an update of its status by the node is a heartbeat. The time at which it was
observed counts, by the controller's clock: nodes' clocks may be wrong.
"""

from __future__ import annotations

from msgspec import Struct

from alcove.api import meta
from alcove.api.objects import Object, get

GRACE_SECONDS = 50.0
STARTUP_GRACE_SECONDS = 60.0
"""For a node that has not posted a status yet."""
KUBELET_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class NodeHealth(Struct, frozen=True):
    conditions: list[Object] | None = None
    """The conditions to write. None if they stay as they are."""
    next_check_seconds: float | None = None
    """Seconds until the node counts as lost without a heartbeat. None if it is lost."""


def status_of(node: Object, type_: str) -> str:
    """True, False or Unknown; empty if the node does not have the condition."""
    for condition in get(node, "status", "conditions", default=()):
        if condition.get("type") == type_:
            return condition.get("status") or ""
    return ""


def is_ready(node: Object) -> bool:
    return status_of(node, "Ready") == "True"


def grace_seconds(node: Object) -> float:
    return GRACE_SECONDS if status_of(node, "Ready") else STARTUP_GRACE_SECONDS


def evaluate(node: Object, heartbeat_at: float, now: float) -> NodeHealth:
    remaining = heartbeat_at + grace_seconds(node) - now
    if remaining > 0:
        return NodeHealth(next_check_seconds=remaining)
    existing = get(node, "status", "conditions", default=[])
    unknown = _unknown(node, existing, now)
    return NodeHealth(unknown if unknown != existing else None)


def _unknown(node: Object, existing: list[Object], now: float) -> list[Object]:
    result = [
        _set_unknown(each, now) if each.get("type") in KUBELET_CONDITIONS else each for each in existing
    ]
    types = {each.get("type") for each in existing}
    created = node["metadata"].get("creationTimestamp")
    for type_ in KUBELET_CONDITIONS:
        if type_ not in types:
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


def _set_unknown(condition: Object, now: float) -> Object:
    if condition.get("status") == "Unknown":
        return condition
    return {
        **condition,
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": meta.format_time(now),
    }
