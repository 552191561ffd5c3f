"""Where an object of the provider is in its life: `spec.status`, as in Mizar, with conditions that say why.

Init ──▶ Provisioned        everything that the provider decides is decided
  └────▶ Failed             it cannot be as written; the message says why
         Failed ──▶ Provisioned when what was in the way is gone
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from alcove.api import meta, objects
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.resources import Resource
from alcove.vpc.placement import PlacementStatus

FINALIZER = "mizar.com/provider"
"""On VPCs and subnets: they go when nothing is in them any more."""


NAMES_SHOWN_MAX = 5


class ProvisioningState(StrEnum):
    INIT = "Init"
    PROVISIONED = "Provisioned"
    FAILED = "Failed"


def state_of(obj: Object) -> str:
    return str(objects.get(obj, "spec", "status", default=ProvisioningState.INIT))


def is_provisioned(obj: Object) -> bool:
    return state_of(obj) == ProvisioningState.PROVISIONED


def is_going(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def enter(obj: Object, state: ProvisioningState, now: float) -> None:
    """Writes the state into the spec, and how long it took to be provisioned the first time."""
    spec = obj["spec"]
    spec["status"] = str(state)
    if "createtime" not in spec:
        spec["createtime"] = obj["metadata"].get("creationTimestamp") or meta.format_micro_time(now)
    if state is ProvisioningState.PROVISIONED and "provisiondelay" not in spec:
        spec["provisiondelay"] = f"{max(0.0, now - meta.parse_time(spec['createtime'])):.3f}"


def hold(obj: Object) -> None:
    """The object waits for the provider when it is deleted."""
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)


def let_go(obj: Object) -> None:
    obj["metadata"]["finalizers"] = [
        each for each in obj["metadata"].get("finalizers") or () if each != FINALIZER
    ]


def condition(obj: Object, kind: str, is_so: bool, reason: str, message: str, now: float) -> Object:
    """The condition as it is to be; its time is that of the last change between true and false."""
    status = "True" if is_so else "False"
    before: Object = next(
        (each for each in objects.get(obj, "status", "conditions", default=[]) if each.get("type") == kind),
        {},
    )
    same = before.get("status") == status
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": before["lastTransitionTime"] if same else meta.format_time(now),
        "observedGeneration": obj["metadata"].get("generation", 0),
    }


def described(obj: Object, state: ProvisioningState, message: str, now: float, *more: Object) -> Object:
    """The status beside the spec: the message for people, and the conditions."""
    reasons = {
        ProvisioningState.INIT: "Waiting",
        ProvisioningState.PROVISIONED: "Provisioned",
        ProvisioningState.FAILED: "Refused",
    }
    own = condition(obj, "Provisioned", state is ProvisioningState.PROVISIONED, reasons[state], message, now)
    kept = {
        field: value
        for field, value in (obj.get("status") or {}).items()
        if field not in ("message", "conditions")
    }
    return {**kept, "message": message, "conditions": [own, *more]}


def placed(obj: Object, kept: PlacementStatus, now: float) -> Object:
    """Whether all copies of the object's duty are on droplets."""
    reason = "OnDroplets" if kept.is_whole else "NotEnoughDroplets"
    return condition(obj, "Placed", kept.is_whole, reason, str(kept), now)


def some(names: Sequence[str]) -> str:
    """The first few of them, and how many more there are."""
    shown = ", ".join(names[:NAMES_SHOWN_MAX])
    more = len(names) - NAMES_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown


async def write(client: Client, resource: Resource, new: Object, old: Object, status: Object) -> Object:
    """Writes what differs: the object where its spec or finalizers do, then its status."""
    if new["spec"] != old.get("spec") or new["metadata"] != old["metadata"]:
        new = await client.update(SYSTEM, resource, new)
    if not _is_told(new.get("status") or {}, status):
        new = await client.update(SYSTEM, resource, {**new, "status": status}, subresource="status")
    return new


def _is_told(before: Object, status: Object) -> bool:
    """A generation that was observed is not worth a write of its own."""
    return _without_generation(before) == _without_generation(status)


def _without_generation(status: Object) -> Object:
    conditions = [
        {field: value for field, value in each.items() if field != "observedGeneration"}
        for each in status.get("conditions") or ()
    ]
    return {**status, "conditions": conditions}
