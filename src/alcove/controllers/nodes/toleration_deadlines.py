"""When a pod must be evicted because of its node's NoExecute taints. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from alcove.api import meta
from alcove.api.objects import Object, get
from alcove.api.tolerations import NO_EXECUTE, NodeTaint, read_tolerations

NEVER = float("inf")
IMMEDIATELY = 0.0


class NoExecuteTaint(Struct, frozen=True):
    key: str
    value: str
    since: float

    @property
    def taint(self) -> NodeTaint:
        return NodeTaint(self.key, self.value, NO_EXECUTE)


def read(node: Object, before: Sequence[NoExecuteTaint], now: float) -> tuple[NoExecuteTaint, ...]:
    """The node's NoExecute taints, each with the time it was added, or first observed if it has none."""
    seen = {(each.key, each.value): each.since for each in before}
    return tuple(
        NoExecuteTaint(key, value, _since(each, seen.get((key, value), now)))
        for each in get(node, "spec", "taints", default=())
        if each.get("effect") == NO_EXECUTE
        for key, value in [(each.get("key") or "", each.get("value") or "")]
    )


def _since(taint: Object, default: float) -> float:
    try:
        return meta.parse_time(taint["timeAdded"]) if taint.get("timeAdded") else default
    except ValueError:
        return default


def eviction_time(pod: Object, taints: Sequence[NoExecuteTaint]) -> float:
    """When the pod must be evicted, in epoch seconds. For each taint the first toleration that covers it
    counts; without one the pod is evicted immediately."""
    tolerations: Sequence[Object] = get(pod, "spec", "tolerations", default=())
    return min((_eviction_time_for(tolerations, taint) for taint in taints), default=NEVER)


def _eviction_time_for(tolerations: Sequence[Object], taint: NoExecuteTaint) -> float:
    for each, toleration in zip(tolerations, read_tolerations(tolerations), strict=True):
        if toleration.covers(taint.taint):
            seconds = each.get("tolerationSeconds")
            if seconds is None:
                return NEVER
            return taint.since + seconds if seconds > 0 else IMMEDIATELY
    return IMMEDIATELY
