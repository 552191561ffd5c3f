"""What is next for a claim, and for a volume. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from msgspec import Struct

from alcove.api import localvolumes, objects
from alcove.api.objects import Object, get
from alcove.controllers.volumes import facts, matching


class Told(Struct, frozen=True):
    """An event."""

    reason: str
    message: str
    is_warning: bool = False


# Claims


class Bind(Struct, frozen=True):
    volume: Object


class Lost(Struct, frozen=True):
    told: Told


class Wait(Struct, frozen=True):
    told: Told | None = None
    provisioner: str = ""
    """Who is asked to make a volume."""
    takes_class: str = ""
    """It named no class, and gets the one that is the default by now."""


Next = Bind | Lost | Wait


class Around(Struct, frozen=True, kw_only=True):
    """What a claim sees: all of its own tenant."""

    named: Object | None = None
    """The volume that it names."""
    meant: Sequence[Object] = ()
    free: Sequence[Object] = ()
    chosen: Object | None = None
    """Its class."""
    default_class: str = ""
    user: Object | None = None
    """A pod that wants to use it."""


def for_claim(claim: Object, around: Around) -> Next:
    if facts.BIND_COMPLETED in objects.annotations(claim):
        return _of_bound(claim, around.named)
    if get(claim, "spec", "volumeName"):
        return _of_named(claim, around.named)
    # Of a class that waits, the scheduler chooses among free volumes, together with the node.
    free = () if facts.waits_for_consumer(around.chosen) else around.free
    volume = matching.best(claim, around.meant, free)
    return Bind(volume) if volume is not None else _of_unmatched(claim, around)


def _of_bound(claim: Object, volume: Object | None) -> Next:
    if not get(claim, "spec", "volumeName"):
        told = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
        return Lost(Told("ClaimLost", told, True))
    if volume is None:
        told = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        return Lost(Told("ClaimLost", told, True))
    ref = get(volume, "spec", "claimRef")
    if ref is None or facts.is_meant_for(volume, claim):
        return Bind(volume)
    told = "Two claims are bound to the same volume, this one is bound incorrectly"
    return Lost(Told("ClaimMisbound", told, True))


def _of_named(claim: Object, volume: Object | None) -> Next:
    if volume is None:
        return Wait()
    if get(volume, "spec", "claimRef") is None:
        if why := matching.fault(volume, claim):
            name = volume["metadata"]["name"]
            told = f'Cannot bind to requested volume "{name}": {why}'
            return Wait(Told("VolumeMismatch", told, True))
        return Bind(volume)
    if facts.is_meant_for(volume, claim):
        return Bind(volume)
    told = f'volume "{volume["metadata"]["name"]}" already bound to a different claim.'
    return Wait(Told("FailedBinding", told, True))


def _of_unmatched(claim: Object, around: Around) -> Next:
    name, chosen = facts.class_of(claim), around.chosen
    if not name:
        if get(claim, "spec", "storageClassName") is None and around.default_class:
            return Wait(takes_class=around.default_class)
        told = "no persistent volumes available for this claim and no storage class is set"
        return Wait(Told("FailedBinding", told))
    if chosen is None:
        return Wait(Told("ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found', True))
    if facts.waits_for_consumer(chosen) and facts.SELECTED_NODE not in objects.annotations(claim):
        return Wait(_waits_for(around.user))
    provisioner = chosen.get("provisioner", "")
    if provisioner == facts.NO_PROVISIONER:
        return Wait(Told("ProvisioningFailed", f"no volume plugin matched name: {provisioner}", True))
    if provisioner == localvolumes.PROVISIONER:
        return Wait(provisioner=provisioner)
    told = (
        f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually "
        "by the system administrator. If volume creation is delayed, please verify that the provisioner is "
        "running and correctly registered."
    )
    return Wait(Told("ExternalProvisioning", told), provisioner)


def _waits_for(user: Object | None) -> Told:
    if user is None:
        return Told("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
    return Told("WaitForPodScheduled", f"waiting for pod {user['metadata']['name']} to be scheduled")


# Volumes


class Fate(Enum):
    FREE = auto()
    HELD = auto()
    """Its claim is there, and has yet to take it."""
    BOUND = auto()
    RELEASED = auto()
    """Its claim is gone: it goes as its policy says."""
    UNBOUND = auto()
    """Its claim took another: it is nobody's again."""


PHASES = {Fate.FREE: "Available", Fate.BOUND: "Bound", Fate.RELEASED: "Released"}


def for_volume(volume: Object, claim: Object | None) -> Fate:
    """`claim` is the one of the name that the volume names, whatever its uid."""
    ref = get(volume, "spec", "claimRef")
    if ref is None or not ref.get("uid"):
        return Fate.FREE
    if claim is None or claim["metadata"]["uid"] != ref["uid"]:
        return Fate.RELEASED
    name = get(claim, "spec", "volumeName")
    if not name:
        return Fate.HELD
    if name == volume["metadata"]["name"]:
        return Fate.BOUND
    made_for_it = facts.PROVISIONED_BY in objects.annotations(volume)
    is_deleted = get(volume, "spec", "persistentVolumeReclaimPolicy") == "Delete"
    return Fate.RELEASED if made_for_it and is_deleted else Fate.UNBOUND
