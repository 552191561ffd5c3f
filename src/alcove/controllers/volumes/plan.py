"""The next binding step of a claim, and the phase of a volume. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from msgspec import Struct

from alcove.api import local_volumes, objects
from alcove.api.objects import Object, get
from alcove.controllers.volumes import facts, matching


class EventNote(Struct, frozen=True):
    reason: str
    message: str
    is_warning: bool = False


# Claims


class BindClaim(Struct, frozen=True):
    volume: Object


class ClaimLost(Struct, frozen=True):
    event: EventNote


class WaitForVolume(Struct, frozen=True):
    event: EventNote | None = None
    provisioner: str = ""
    """The provisioner that should create a volume."""
    takes_class: str = ""
    """The default class to set, if the claim has no class."""


Next = BindClaim | ClaimLost | WaitForVolume


class ClaimContext(Struct, frozen=True, kw_only=True):
    """The objects that the plan of a claim depends on, all of the claim's tenant."""

    named: Object | None = None
    """The volume that the claim names."""
    meant: Sequence[Object] = ()
    free: Sequence[Object] = ()
    chosen: Object | None = None
    """The claim's storage class."""
    default_class: str = ""
    user: Object | None = None
    """An active pod that uses the claim."""


def for_claim(claim: Object, context: ClaimContext) -> Next:
    if facts.BIND_COMPLETED in objects.annotations(claim):
        return _of_bound(claim, context.named)
    if get(claim, "spec", "volumeName"):
        return _of_named(claim, context.named)
    # With WaitForFirstConsumer the scheduler chooses the volume together with the node.
    free = () if facts.waits_for_consumer(context.chosen) else context.free
    volume = matching.best(claim, context.meant, free)
    return BindClaim(volume) if volume is not None else _of_unmatched(claim, context)


def _of_bound(claim: Object, volume: Object | None) -> Next:
    if not get(claim, "spec", "volumeName"):
        message = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
        return ClaimLost(EventNote("ClaimLost", message, True))
    if volume is None:
        message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        return ClaimLost(EventNote("ClaimLost", message, True))
    ref = get(volume, "spec", "claimRef")
    if ref is None or facts.is_meant_for(volume, claim):
        return BindClaim(volume)
    message = "Two claims are bound to the same volume, this one is bound incorrectly"
    return ClaimLost(EventNote("ClaimMisbound", message, True))


def _of_named(claim: Object, volume: Object | None) -> Next:
    if volume is None:
        return WaitForVolume()
    if get(volume, "spec", "claimRef") is None:
        if mismatch := matching.find_problem(volume, claim):
            name = volume["metadata"]["name"]
            message = f'Cannot bind to requested volume "{name}": {mismatch}'
            return WaitForVolume(EventNote("VolumeMismatch", message, True))
        return BindClaim(volume)
    if facts.is_meant_for(volume, claim):
        return BindClaim(volume)
    message = f'volume "{volume["metadata"]["name"]}" already bound to a different claim.'
    return WaitForVolume(EventNote("FailedBinding", message, True))


def _of_unmatched(claim: Object, context: ClaimContext) -> Next:
    name, chosen = facts.class_of(claim), context.chosen
    if not name:
        if get(claim, "spec", "storageClassName") is None and context.default_class:
            return WaitForVolume(takes_class=context.default_class)
        message = "no persistent volumes available for this claim and no storage class is set"
        return WaitForVolume(EventNote("FailedBinding", message))
    if chosen is None:
        return WaitForVolume(
            EventNote("ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found', True)
        )
    if facts.waits_for_consumer(chosen) and facts.SELECTED_NODE not in objects.annotations(claim):
        return WaitForVolume(_waits_for(context.user))
    provisioner = chosen.get("provisioner", "")
    if provisioner == facts.NO_PROVISIONER:
        return WaitForVolume(
            EventNote("ProvisioningFailed", f"no volume plugin matched name: {provisioner}", True)
        )
    if provisioner == local_volumes.PROVISIONER:
        return WaitForVolume(provisioner=provisioner)
    message = (
        f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually "
        "by the system administrator. If volume creation is delayed, please verify that the provisioner is "
        "running and correctly registered."
    )
    return WaitForVolume(EventNote("ExternalProvisioning", message), provisioner)


def _waits_for(user: Object | None) -> EventNote:
    if user is None:
        return EventNote("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
    return EventNote("WaitForPodScheduled", f"waiting for pod {user['metadata']['name']} to be scheduled")


# Volumes


class VolumePhase(Enum):
    FREE = auto()
    HELD = auto()
    """Its claim exists but is not bound to it yet."""
    BOUND = auto()
    RELEASED = auto()
    """Its claim was deleted: the reclaim policy applies."""
    UNBOUND = auto()
    """Its claim is bound to another volume: this one becomes available again."""


PHASES = {VolumePhase.FREE: "Available", VolumePhase.BOUND: "Bound", VolumePhase.RELEASED: "Released"}


def for_volume(volume: Object, claim: Object | None) -> VolumePhase:
    """`claim` is the existing claim with the name in the volume's claimRef, whatever its uid."""
    ref = get(volume, "spec", "claimRef")
    if ref is None or not ref.get("uid"):
        return VolumePhase.FREE
    if claim is None or claim["metadata"]["uid"] != ref["uid"]:
        return VolumePhase.RELEASED
    name = get(claim, "spec", "volumeName")
    if not name:
        return VolumePhase.HELD
    if name == volume["metadata"]["name"]:
        return VolumePhase.BOUND
    is_provisioned = facts.PROVISIONED_BY in objects.annotations(volume)
    is_deleted = get(volume, "spec", "persistentVolumeReclaimPolicy") == "Delete"
    return VolumePhase.RELEASED if is_provisioned and is_deleted else VolumePhase.UNBOUND
