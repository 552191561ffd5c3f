"""Status conditions: one per type, each with the time of its last change of status."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from alcove.api import meta
from alcove.api.objects import Object


class Condition(Struct, frozen=True):
    type: str
    status: bool
    reason: str
    message: str


def updated(existing: Sequence[Object], desired: Sequence[Condition], now: float) -> list[Object]:
    """`existing` with the desired conditions set; other types stay. Equal to `existing` if nothing
    changed."""
    result = {condition["type"]: condition for condition in existing}
    for condition in desired:
        old = result.get(condition.type)
        status = "True" if condition.status else "False"
        transition_time = meta.format_time(now)
        if old is not None and old.get("status") == status and old.get("lastTransitionTime"):
            transition_time = old["lastTransitionTime"]
        result[condition.type] = {
            "type": condition.type,
            "status": status,
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": transition_time,
        }
    return list(result.values())


def is_true(obj: Object, type_: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == type_ and each.get("status") == "True" for each in conditions)
