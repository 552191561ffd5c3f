"""Selection of a volume for a claim. Pure.

A volume whose claimRef refers to the claim; otherwise the smallest available one that is large enough and
matches by class, access modes, volume mode and labels.
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import selectors
from alcove.api.errors import BadRequest
from alcove.api.objects import Object, get, labels
from alcove.api.selectors import EVERYTHING, NOTHING, LabelSelector
from alcove.controllers.volumes import facts


def find_problem(volume: Object, claim: Object) -> str:
    """A message if the claim cannot be bound to the volume that it names; otherwise empty."""
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
    """`meant` are volumes whose claimRef has the claim's name, `free` are available ones of its class."""
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
    """The claim's selector. An invalid one selects no volume."""
    spec = get(claim, "spec", "selector")
    if spec is None:
        return EVERYTHING
    try:
        return selectors.from_object(spec)
    except BadRequest:
        return NOTHING
