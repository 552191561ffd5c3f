"""The objects that binding writes: a volume with its claim, a claim with its volume. Pure.

Each returns the object as it should be, or None where it is so already.
"""

from __future__ import annotations

from alcove.api.objects import Object, get
from alcove.api.validation import same
from alcove.controllers.volumes import facts

YES = "yes"


def _annotated(obj: Object, **more: str) -> Object:
    return {**(obj["metadata"].get("annotations") or {}), **more}


def claimed(volume: Object, claim: Object) -> Object | None:
    ref = get(volume, "spec", "claimRef", default={})
    metadata = claim["metadata"]
    if ref.get("uid") == metadata["uid"]:
        return None
    desired = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }
    new = {**volume, "metadata": dict(volume["metadata"]), "spec": {**volume["spec"], "claimRef": desired}}
    if not ref:
        # Whose choice it was decides whether it can be undone.
        new["metadata"]["annotations"] = _annotated(volume, **{facts.BOUND_BY_CONTROLLER: YES})
    return new


def unclaimed(volume: Object) -> Object:
    """A choice of ours is forgotten; one that somebody wrote into the volume stays, for who has that name."""
    ref = volume["spec"]["claimRef"]
    metadata, spec = dict(volume["metadata"]), dict(volume["spec"])
    annotations = dict(metadata.get("annotations") or {})
    if annotations.pop(facts.BOUND_BY_CONTROLLER, None):
        del spec["claimRef"]
    else:
        spec["claimRef"] = {key: ref[key] for key in ref if key not in ("uid", "resourceVersion")}
    return {**volume, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def bound(claim: Object, volume: Object) -> Object | None:
    name = volume["metadata"]["name"]
    marks = {facts.BIND_COMPLETED: YES}
    if not get(claim, "spec", "volumeName"):
        marks[facts.BOUND_BY_CONTROLLER] = YES
    new = {
        **claim,
        "metadata": {**claim["metadata"], "annotations": _annotated(claim, **marks)},
        "spec": {**claim["spec"], "volumeName": name},
    }
    return None if same(new, claim) else new


def bound_status(claim: Object, volume: Object) -> Object | None:
    """What the claim got. Its size is what it was when it was bound: growing is told by who grows it."""
    there: Object = claim.get("status") or {}
    status = {**there, "phase": "Bound", "accessModes": volume["spec"].get("accessModes") or []}
    if there.get("phase") != "Bound" or not there.get("capacity"):
        status["capacity"] = volume["spec"]["capacity"]
    return None if same(status, there) else {**claim, "status": status}


def unbound_status(claim: Object, phase: str) -> Object | None:
    there: Object = claim.get("status") or {}
    if there.get("phase") == phase:
        return None
    kept = {key: there[key] for key in there if key not in ("accessModes", "capacity")}
    return {**claim, "status": {**kept, "phase": phase}}
