"""Which volume a claim gets. Pure.

The one that names it; else, of those that nobody has, the smallest that is large enough and fits by class,
access modes, volume mode and labels.
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import selectors
from alcove.api.errors import BadRequest
from alcove.api.objects import Object, get, labels
from alcove.api.selectors import EVERYTHING, NOTHING, LabelSelector
from alcove.controllers.volumes import facts


def fault(volume: Object, claim: Object) -> str:
    """Why a claim cannot have the volume that it names; empty: it can."""
    if facts.capacity(volume) < facts.requested(claim):
        return "requested PV is too small"
    if facts.class_of(volume) != facts.class_of(claim):
        return "storageClassName does not match"
    if facts.volume_mode(volume) != facts.volume_mode(claim):
        return "incompatible volumeMode"
    if not facts.modes(claim) <= facts.modes(volume):
        return "incompatible accessMode"
    return ""


def best(claim: Object, meant: Iterable[Object], free: Iterable[Object]) -> Object | None:
    """`meant` are volumes that name a claim of this name, `free` are of its class and nobody's."""
    for volume in meant:
        if facts.is_meant_for(volume, claim) and _could_hold(volume, claim):
            return volume
    selector = _selector(claim)
    fitting = [
        volume
        for volume in free
        if _could_hold(volume, claim)
        and facts.class_of(volume) == facts.class_of(claim)
        and selector.matches(labels(volume))
    ]
    return min(fitting, key=lambda each: (facts.capacity(each), each["metadata"]["name"]), default=None)


def _could_hold(volume: Object, claim: Object) -> bool:
    return (
        "deletionTimestamp" not in volume["metadata"]
        and facts.capacity(volume) >= facts.requested(claim)
        and facts.volume_mode(volume) == facts.volume_mode(claim)
        and facts.modes(claim) <= facts.modes(volume)
    )


def _selector(claim: Object) -> LabelSelector:
    """One that makes no sense selects no volume."""
    given = get(claim, "spec", "selector")
    if given is None:
        return EVERYTHING
    try:
        return selectors.from_object(given)
    except BadRequest:
        return NOTHING
