"""Conditions, as statuses list them: one per type, with the time of its last change of status."""

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


def updated(there: Sequence[Object], desired: Sequence[Condition], now: float) -> list[Object]:
    """The list with the wanted conditions in it; others stay. Equal to `there` where nothing changed."""
    result = {condition["type"]: condition for condition in there}
    for each in desired:
        old = result.get(each.type)
        message = "True" if each.status else "False"
        changed = meta.format_time(now)
        if old is not None and old.get("status") == message and old.get("lastTransitionTime"):
            changed = old["lastTransitionTime"]
        result[each.type] = {
            "type": each.type,
            "status": message,
            "reason": each.reason,
            "message": each.message,
            "lastTransitionTime": changed,
        }
    return list(result.values())


def is_true(obj: Object, type_: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == type_ and each.get("status") == "True" for each in conditions)
