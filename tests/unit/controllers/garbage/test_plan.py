"""What becomes of an object, for every kind of owner and deletion."""

from typing import Any

import pytest

from alcove.api.ids import TenantId
from alcove.client.client import Propagation
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import PODS
from alcove.controllers.garbage.plan import (
    Decision,
    DeleteObject,
    JudgedReference,
    KeepObject,
    OrphanDependents,
    OwnerState,
    WaitForDependents,
    blocks,
    decide,
    needs_owners,
    without_finalizer,
    without_owners,
)
from alcove.controllers.metadata_cache import ObjectMetadata

BACKGROUND, FOREGROUND, ORPHAN = Propagation.BACKGROUND, Propagation.FOREGROUND, Propagation.ORPHAN


def known(
    owners: int = 0, finalizers: tuple[str, ...] = (), ending: bool = False, **of_owner: Any
) -> ObjectMetadata:
    metadata: dict[str, Any] = {"uid": "own", "resourceVersion": "7", "name": "x"}
    metadata["ownerReferences"] = [{"uid": f"o{number}", **of_owner} for number in range(owners)]
    metadata["finalizers"] = list(finalizers)
    if ending:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return ObjectMetadata(PODS, ObjectKey(HOME, TenantId("a"), "default", "x"), metadata)


def judged(*owners: OwnerState) -> list[JudgedReference]:
    return [JudgedReference({"uid": f"o{number}"}, owner) for number, owner in enumerate(owners)]


SOLID, WAITING, GONE = OwnerState.SOLID, OwnerState.WAITING, OwnerState.GONE


@pytest.mark.parametrize(
    ("owners", "has_dependents", "decision"),
    [
        ((), False, KeepObject()),
        ((SOLID,), False, KeepObject()),
        ((SOLID, GONE), False, KeepObject(frozenset({"o1"}))),
        ((WAITING, SOLID, GONE), True, KeepObject(frozenset({"o0", "o2"}))),
        ((GONE,), False, DeleteObject(BACKGROUND)),
        ((GONE, GONE), True, DeleteObject(BACKGROUND)),
        ((WAITING,), False, DeleteObject(BACKGROUND)),
        ((WAITING,), True, DeleteObject(FOREGROUND)),
        ((WAITING, GONE), True, DeleteObject(FOREGROUND)),
    ],
)
def test_by_its_owners(owners: tuple[OwnerState, ...], has_dependents: bool, decision: Decision) -> None:
    found = decide(known(len(owners)), judged(*owners), has_dependents=has_dependents)
    assert found == decision


@pytest.mark.parametrize(
    ("finalizers", "decision"),
    [
        ((), KeepObject()),
        (("orphan",), OrphanDependents()),
        (("foregroundDeletion",), WaitForDependents()),
        (("x.y/z",), KeepObject()),
    ],
)
def test_by_its_own_deletion(finalizers: tuple[str, ...], decision: Decision) -> None:
    ending = known(1, finalizers, ending=True)
    assert not needs_owners(ending)
    assert decide(ending, [], has_dependents=True) == decision


def test_a_policy_of_its_own_is_kept_when_it_is_collected() -> None:
    for finalizer, propagation in (("orphan", ORPHAN), ("foregroundDeletion", FOREGROUND)):
        found = decide(known(1, (finalizer,)), judged(GONE), has_dependents=False)
        assert found == DeleteObject(propagation)


def test_who_blocks() -> None:
    assert blocks(known(1, blockOwnerDeletion=True), "o0")
    assert not blocks(known(1, blockOwnerDeletion=True), "o1")
    assert not blocks(known(1), "o0")


def test_patches_hold_for_just_the_known_state() -> None:
    patch = without_owners(known(2), frozenset({"o0"}))["metadata"]
    assert patch == {"uid": "own", "resourceVersion": "7", "ownerReferences": [{"uid": "o1"}]}
    patch = without_finalizer(known(0, ("orphan",)), "orphan")["metadata"]
    assert patch == {"uid": "own", "resourceVersion": "7", "finalizers": None}
