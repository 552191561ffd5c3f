"""When a pod has to leave a node because of the node's taints. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from alcove.api import meta
from alcove.api.objects import Object, get
from alcove.controllers.nodes.taints import NO_EXECUTE
from alcove.controllers.tolerations import covers

NEVER = float("inf")
AT_ONCE = 0.0


class NoExecuteTaint(Struct, frozen=True):
    """One that pods must go for."""

    key: str
    value: str
    since: float

    def as_object(self) -> Object:
        return {"key": self.key, "value": self.value, "effect": NO_EXECUTE}


def read(node: Object, before: Sequence[NoExecuteTaint], now: float) -> tuple[NoExecuteTaint, ...]:
    """The node's, each since it was added, or was first seen by us if it does not say."""
    seen = {(each.key, each.value): each.since for each in before}
    return tuple(
        NoExecuteTaint(key, value, _since(each, seen.get((key, value), now)))
        for each in get(node, "spec", "taints", default=())
        if each.get("effect") == NO_EXECUTE
        for key, value in [(each.get("key") or "", each.get("value") or "")]
    )


def _since(taint: Object, otherwise: float) -> float:
    try:
        return meta.parse_time(taint["timeAdded"]) if taint.get("timeAdded") else otherwise
    except ValueError:
        return otherwise


def leaves_at(pod: Object, taints: Sequence[NoExecuteTaint]) -> float:
    """For each taint the first toleration that covers it counts; without one the pod leaves at once."""
    tolerations: Sequence[Object] = get(pod, "spec", "tolerations", default=())
    return min((_leaves_for(tolerations, taint) for taint in taints), default=NEVER)


def _leaves_for(tolerations: Sequence[Object], taint: NoExecuteTaint) -> float:
    for each in tolerations:
        if covers(each, taint.as_object()):
            seconds = each.get("tolerationSeconds")
            if seconds is None:
                return NEVER
            return taint.since + seconds if seconds > 0 else AT_ONCE
    return AT_ONCE
