"""What becomes of an object, by its owners and its own deletion. Pure.

| its owners                                   | the object                                       |
|----------------------------------------------|--------------------------------------------------|
| one of them is there and stays               | stays; references to the others are taken away   |
| all are gone                                 | is deleted, its own dependents in the background |
| none stays, one is deleted in the foreground | is deleted in the foreground, so that it waits   |
|                                              | for its own dependents as its owner waits for it |

An object that is itself deleted with `orphan` has its references taken off its dependents; one with
`foregroundDeletion` waits until no dependent is left that blocks it (`blockOwnerDeletion`). Where such wait for
each other in a circle, one of them no longer blocks its owners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum

from msgspec import Struct

from alcove.api.objects import Object
from alcove.client.client import Propagation
from alcove.controllers.metadata_cache import ObjectMetadata

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


class OwnerState(Enum):
    """What an owner is to its dependent."""

    SOLID = "solid"
    """There, and staying; or nothing that can be judged, which is the same to us."""
    WAITING = "waiting"
    """Deleted in the foreground: it waits for its dependents."""
    GONE = "gone"


class JudgedReference(Struct, frozen=True):
    reference: Object
    owner: OwnerState


class KeepObject(Struct, frozen=True):
    """`dropped` are uids of owners that it no longer refers to; often none."""

    dropped: frozenset[str] = frozenset()


class DeleteObject(Struct, frozen=True):
    propagation: Propagation


class OrphanDependents(Struct, frozen=True):
    """Take the references to it off its dependents, then let it go."""


class WaitForDependents(Struct, frozen=True):
    """Delete its dependents; let it go when none blocks it any more."""


Decision = KeepObject | DeleteObject | OrphanDependents | WaitForDependents


def needs_owners(known: ObjectMetadata) -> bool:
    """Whether `decide` depends on its owners; they cost requests to judge."""
    return not known.is_ending and bool(known.owners)


def decide(known: ObjectMetadata, judged: Sequence[JudgedReference], *, has_dependents: bool) -> Decision:
    if known.is_ending:
        if ORPHAN in known.finalizers:
            return OrphanDependents()
        return WaitForDependents() if FOREGROUND in known.finalizers else KeepObject()
    if not judged:
        return KeepObject()
    gone = frozenset(each.reference["uid"] for each in judged if each.owner is not OwnerState.SOLID)
    if len(gone) < len({each.reference["uid"] for each in judged}):
        return KeepObject(gone)
    waiting = any(each.owner is OwnerState.WAITING for each in judged)
    if waiting and has_dependents:
        return DeleteObject(Propagation.FOREGROUND)
    return DeleteObject(_own_policy(known))


def _own_policy(known: ObjectMetadata) -> Propagation:
    if ORPHAN in known.finalizers:
        return Propagation.ORPHAN
    return Propagation.FOREGROUND if FOREGROUND in known.finalizers else Propagation.BACKGROUND


def blocks(dependent: ObjectMetadata, uid: str) -> bool:
    """Whether this dependent keeps an owner that is deleted in the foreground."""
    return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in dependent.owners)


def waits(known: ObjectMetadata) -> bool:
    return known.is_ending and FOREGROUND in known.finalizers


def is_in_circle(
    known: ObjectMetadata, dependents_of: Callable[[ObjectMetadata], Iterable[ObjectMetadata]]
) -> bool:
    """Whether it waits for what waits, over however many, for itself."""
    seen, ahead = {known.uid}, [known]
    while ahead:
        owner = ahead.pop()
        for each in dependents_of(owner):
            if not waits(each) or not blocks(each, owner.uid):
                continue
            if each.uid == known.uid:
                return True
            if each.uid not in seen:
                seen.add(each.uid)
                ahead.append(each)
    return False


def unblocking(known: ObjectMetadata) -> Object:
    """A merge patch: it no longer keeps its owners, and still goes with them."""
    owners = [{**owner, "blockOwnerDeletion": False} for owner in known.owners]
    return {
        "metadata": {
            "uid": known.uid,
            "resourceVersion": known.metadata["resourceVersion"],
            "ownerReferences": owners,
        }
    }


def without_owners(known: ObjectMetadata, uids: frozenset[str]) -> Object:
    """A merge patch, for just the state that is known."""
    kept = [owner for owner in known.owners if owner["uid"] not in uids]
    return {
        "metadata": {
            "uid": known.uid,
            "resourceVersion": known.metadata["resourceVersion"],
            "ownerReferences": kept or None,
        }
    }


def without_finalizer(known: ObjectMetadata, finalizer: str) -> Object:
    kept = [each for each in known.finalizers if each != finalizer]
    return {
        "metadata": {
            "uid": known.uid,
            "resourceVersion": known.metadata["resourceVersion"],
            "finalizers": kept or None,
        }
    }
