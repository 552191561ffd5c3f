"""Provisioning states of the provider's objects: `spec.status`, as in Mizar, and conditions with the reason.

Init ──▶ Provisioned        the provider has set all fields that it decides
  └────▶ Failed             the object is invalid as written; the message says why
         Failed ──▶ Provisioned when the obstacle is removed
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
"""The finalizer of VPCs and subnets: they are deleted when they are empty."""


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
    """Set the state in the spec, and the time it took until the object was first provisioned."""
    spec = obj["spec"]
    spec["status"] = str(state)
    if "createtime" not in spec:
        spec["createtime"] = obj["metadata"].get("creationTimestamp") or meta.format_micro_time(now)
    if state is ProvisioningState.PROVISIONED and "provisiondelay" not in spec:
        spec["provisiondelay"] = f"{max(0.0, now - meta.parse_time(spec['createtime'])):.3f}"


def hold(obj: Object) -> None:
    """Add the provider's finalizer."""
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)


def let_go(obj: Object) -> None:
    """Remove the provider's finalizer."""
    obj["metadata"]["finalizers"] = [
        each for each in obj["metadata"].get("finalizers") or () if each != FINALIZER
    ]


def condition(obj: Object, kind: str, is_so: bool, reason: str, message: str, now: float) -> Object:
    """Build the desired condition; its transition time changes only with its status."""
    status = "True" if is_so else "False"
    previous: Object = next(
        (each for each in objects.get(obj, "status", "conditions", default=[]) if each.get("type") == kind),
        {},
    )
    is_unchanged = previous.get("status") == status
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": previous["lastTransitionTime"] if is_unchanged else meta.format_time(now),
        "observedGeneration": obj["metadata"].get("generation", 0),
    }


def described(obj: Object, state: ProvisioningState, message: str, now: float, *more: Object) -> Object:
    """Build the status: the message for users, the condition Provisioned, and `more` conditions."""
    reasons = {
        ProvisioningState.INIT: "Waiting",
        ProvisioningState.PROVISIONED: "Provisioned",
        ProvisioningState.FAILED: "Refused",
    }
    is_ready = state is ProvisioningState.PROVISIONED
    provisioned = condition(obj, "Provisioned", is_ready, reasons[state], message, now)
    retained = {
        field: value
        for field, value in (obj.get("status") or {}).items()
        if field not in ("message", "conditions")
    }
    return {**retained, "message": message, "conditions": [provisioned, *more]}


def placed(obj: Object, placement: PlacementStatus, now: float) -> Object:
    """The condition Placed: whether all copies of the object's duty are on droplets."""
    reason = "OnDroplets" if placement.is_whole else "NotEnoughDroplets"
    return condition(obj, "Placed", placement.is_whole, reason, str(placement), now)


def some(names: Sequence[str]) -> str:
    """The first few names, and the number of the others."""
    shown = ", ".join(names[:NAMES_SHOWN_MAX])
    more = len(names) - NAMES_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown


async def write(client: Client, resource: Resource, new: Object, old: Object, status: Object) -> Object:
    """Update the object if its spec or metadata differ, then its status if that differs. Returns the last
    version."""
    if new["spec"] != old.get("spec") or new["metadata"] != old["metadata"]:
        new = await client.update(SYSTEM, resource, new)
    if not _is_current(new.get("status") or {}, status):
        new = await client.update(SYSTEM, resource, {**new, "status": status}, subresource="status")
    return new


def _is_current(previous: Object, status: Object) -> bool:
    """Whether the status needs no write: a change of observedGeneration alone is not written."""
    return _without_generation(previous) == _without_generation(status)


def _without_generation(status: Object) -> Object:
    conditions = [
        {field: value for field, value in each.items() if field != "observedGeneration"}
        for each in status.get("conditions") or ()
    ]
    return {**status, "conditions": conditions}
