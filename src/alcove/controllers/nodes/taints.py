"""What a node's conditions mean for pods, as taints on the node. Pure.

| node                          | no new pods                        | pods must go              |
|-------------------------------|------------------------------------|---------------------------|
| Ready is False                | not-ready                          | not-ready                 |
| Ready is Unknown              | unreachable                        | unreachable               |
| Memory-, Disk-, PIDPressure   | memory-, disk-, pid-pressure       |                           |
| NetworkUnavailable            | network-unavailable                |                           |
| `spec.unschedulable`          | unschedulable                      |                           |

All are of `node.kubernetes.io`. Other taints are somebody else's and stay.
"""

from __future__ import annotations

from alcove.api import meta
from alcove.api.objects import Object, get
from alcove.controllers.nodes.health import status_of

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
DOMAIN = "node.kubernetes.io"
NOT_READY = f"{DOMAIN}/not-ready"
UNREACHABLE = f"{DOMAIN}/unreachable"
UNSCHEDULABLE = f"{DOMAIN}/unschedulable"
_PRESSURES = {
    "MemoryPressure": f"{DOMAIN}/memory-pressure",
    "DiskPressure": f"{DOMAIN}/disk-pressure",
    "PIDPressure": f"{DOMAIN}/pid-pressure",
    "NetworkUnavailable": f"{DOMAIN}/network-unavailable",
}
_READINESS = {"False": NOT_READY, "Unknown": UNREACHABLE}
_OURS = {
    *((key, NO_SCHEDULE) for key in (NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_PRESSURES.values())),
    (NOT_READY, NO_EXECUTE),
    (UNREACHABLE, NO_EXECUTE),
}


def evicting(node: Object) -> str:
    """The taint that pods should have to leave for; empty: none."""
    return _READINESS.get(status_of(node, "Ready"), "")


def is_evicting(node: Object) -> bool:
    """Whether the node has such a taint now."""
    there = get(node, "spec", "taints", default=())
    return any(_mark(each) in ((NOT_READY, NO_EXECUTE), (UNREACHABLE, NO_EXECUTE)) for each in there)


def desired_taints(node: Object, evicts: str, now: float) -> list[Object]:
    """All taints the node should have, `evicts` among them; those that are there stay as they are."""
    there: list[Object] = get(node, "spec", "taints", default=[])
    marks = [(key, NO_SCHEDULE) for key in _keeping_away(node)]
    if evicts:
        marks.append((evicts, NO_EXECUTE))
    kept = [each for each in there if _mark(each) not in _OURS or _mark(each) in marks]
    known = {_mark(each) for each in kept}
    added = [
        {"key": key, "effect": effect, "timeAdded": meta.format_time(now)}
        for key, effect in marks
        if (key, effect) not in known
    ]
    return [*kept, *added]


def _keeping_away(node: Object) -> list[str]:
    keys = [key for type_, key in _PRESSURES.items() if status_of(node, type_) == "True"]
    if (readiness := evicting(node)) != "":
        keys.insert(0, readiness)
    if get(node, "spec", "unschedulable"):
        keys.append(UNSCHEDULABLE)
    return keys


def _mark(taint: Object) -> tuple[str, str]:
    return taint.get("key", ""), taint.get("effect", "")
