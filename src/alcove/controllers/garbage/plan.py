"""Garbage collection decisions, from the state of an object's owners and its deletion. Pure.

| owners                                             | the object                                       |
|----------------------------------------------------|--------------------------------------------------|
| at least one exists and stays                      | stays; references to the others are removed      |
| all are deleted                                    | is deleted with background propagation           |
| none stays, one is in foreground deletion          | is deleted with foreground propagation, if it    |
|                                                    | has dependents                                   |

For an object that is deleted with `orphan`, the references are removed from its dependents; one with
`foregroundDeletion` waits until no dependent blocks it (`blockOwnerDeletion`). If such objects wait for each
other in a cycle, one of them stops blocking its owners.
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
    SOLID = "solid"
    """Exists and stays, or cannot be evaluated; the dependent is kept in both cases."""
    WAITING = "waiting"
    """In foreground deletion: it waits for its dependents."""
    GONE = "gone"


class JudgedReference(Struct, frozen=True):
    reference: Object
    owner: OwnerState


class KeepObject(Struct, frozen=True):
    """`dropped` are the uids of owners whose references are removed; often none."""

    dropped: frozenset[str] = frozenset()


class DeleteObject(Struct, frozen=True):
    propagation: Propagation


class OrphanDependents(Struct, frozen=True):
    """Remove the references from its dependents, then its finalizer."""


class WaitForDependents(Struct, frozen=True):
    """Remove its finalizer once no dependent blocks it."""


Decision = KeepObject | DeleteObject | OrphanDependents | WaitForDependents


def needs_owners(obj: ObjectMetadata) -> bool:
    """Whether `decide` needs the state of the owners, which may cost requests to determine."""
    return not obj.is_terminating and bool(obj.owners)


def decide(obj: ObjectMetadata, references: Sequence[JudgedReference], *, has_dependents: bool) -> Decision:
    if obj.is_terminating:
        if ORPHAN in obj.finalizers:
            return OrphanDependents()
        return WaitForDependents() if FOREGROUND in obj.finalizers else KeepObject()
    if not references:
        return KeepObject()
    dropped = frozenset(each.reference["uid"] for each in references if each.owner is not OwnerState.SOLID)
    if len(dropped) < len({each.reference["uid"] for each in references}):
        return KeepObject(dropped)
    waiting = any(each.owner is OwnerState.WAITING for each in references)
    if waiting and has_dependents:
        return DeleteObject(Propagation.FOREGROUND)
    return DeleteObject(_propagation(obj))


def _propagation(obj: ObjectMetadata) -> Propagation:
    if ORPHAN in obj.finalizers:
        return Propagation.ORPHAN
    return Propagation.FOREGROUND if FOREGROUND in obj.finalizers else Propagation.BACKGROUND


def blocks(dependent: ObjectMetadata, uid: str) -> bool:
    """Whether this dependent blocks the foreground deletion of the owner with this uid."""
    return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in dependent.owners)


def waits(obj: ObjectMetadata) -> bool:
    return obj.is_terminating and FOREGROUND in obj.finalizers


def is_in_circle(
    obj: ObjectMetadata, dependents_of: Callable[[ObjectMetadata], Iterable[ObjectMetadata]]
) -> bool:
    """Whether the object waits, through any number of blocking dependents, for itself."""
    seen, pending = {obj.uid}, [obj]
    while pending:
        owner = pending.pop()
        for each in dependents_of(owner):
            if not waits(each) or not blocks(each, owner.uid):
                continue
            if each.uid == obj.uid:
                return True
            if each.uid not in seen:
                seen.add(each.uid)
                pending.append(each)
    return False


def unblocking(obj: ObjectMetadata) -> Object:
    """A merge patch after which the object no longer blocks its owners but is still deleted with them."""
    owners = [{**owner, "blockOwnerDeletion": False} for owner in obj.owners]
    return {
        "metadata": {
            "uid": obj.uid,
            "resourceVersion": obj.metadata["resourceVersion"],
            "ownerReferences": owners,
        }
    }


def without_owners(obj: ObjectMetadata, uids: frozenset[str]) -> Object:
    """A merge patch that removes the owner references; conflicts if the object has changed."""
    remaining = [owner for owner in obj.owners if owner["uid"] not in uids]
    return {
        "metadata": {
            "uid": obj.uid,
            "resourceVersion": obj.metadata["resourceVersion"],
            "ownerReferences": remaining or None,
        }
    }


def without_finalizer(obj: ObjectMetadata, finalizer: str) -> Object:
    remaining = [each for each in obj.finalizers if each != finalizer]
    return {
        "metadata": {
            "uid": obj.uid,
            "resourceVersion": obj.metadata["resourceVersion"],
            "finalizers": remaining or None,
        }
    }
