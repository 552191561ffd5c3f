"""The taints that follow from a node's conditions. Pure.

| node                          | NoSchedule                         | NoExecute                 |
|-------------------------------|------------------------------------|---------------------------|
| Ready is False                | not-ready                          | not-ready                 |
| Ready is Unknown              | unreachable                        | unreachable               |
| Memory-, Disk-, PIDPressure   | memory-, disk-, pid-pressure       |                           |
| NetworkUnavailable            | network-unavailable                |                           |
| `spec.unschedulable`          | unschedulable                      |                           |

All keys are in `node.kubernetes.io`. Other taints are never changed.
"""

from __future__ import annotations

from alcove.api import meta
from alcove.api.objects import Object, get
from alcove.api.tolerations import NO_EXECUTE, NO_SCHEDULE
from alcove.controllers.nodes.health import status_of

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
_MANAGED = {
    *((key, NO_SCHEDULE) for key in (NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_PRESSURES.values())),
    (NOT_READY, NO_EXECUTE),
    (UNREACHABLE, NO_EXECUTE),
}


def eviction_taint(node: Object) -> str:
    """The key of the NoExecute taint that the node should have; empty if none."""
    return _READINESS.get(status_of(node, "Ready"), "")


def has_eviction_taint(node: Object) -> bool:
    """Whether the node has a NoExecute taint of this controller."""
    existing = get(node, "spec", "taints", default=())
    return any(_identity(each) in ((NOT_READY, NO_EXECUTE), (UNREACHABLE, NO_EXECUTE)) for each in existing)


def desired_taints(node: Object, evicts: str, now: float) -> list[Object]:
    """All taints that the node should have, including `evicts`; existing ones keep their time."""
    existing: list[Object] = get(node, "spec", "taints", default=[])
    managed = [(key, NO_SCHEDULE) for key in _no_schedule_keys(node)]
    if evicts:
        managed.append((evicts, NO_EXECUTE))
    retained = [each for each in existing if _identity(each) not in _MANAGED or _identity(each) in managed]
    retained_ids = {_identity(each) for each in retained}
    added = [
        {"key": key, "effect": effect, "timeAdded": meta.format_time(now)}
        for key, effect in managed
        if (key, effect) not in retained_ids
    ]
    return [*retained, *added]


def _no_schedule_keys(node: Object) -> list[str]:
    keys = [key for type_, key in _PRESSURES.items() if status_of(node, type_) == "True"]
    if (readiness := eviction_taint(node)) != "":
        keys.insert(0, readiness)
    if get(node, "spec", "unschedulable"):
        keys.append(UNSCHEDULABLE)
    return keys


def _identity(taint: Object) -> tuple[str, str]:
    return taint.get("key", ""), taint.get("effect", "")
