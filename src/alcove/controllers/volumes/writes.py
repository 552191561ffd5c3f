"""The objects that binding writes: a volume with its claim, a claim with its volume. Pure.

Functions that may return None return the desired object, or None if the object already is in that state.
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
        # Marks a binding that the controller chose, so that `unclaimed` removes it completely.
        new["metadata"]["annotations"] = _annotated(volume, **{facts.BOUND_BY_CONTROLLER: YES})
    return new


def unclaimed(volume: Object) -> Object:
    """Removes a claimRef that the controller set; one that a user set stays, without uid, for that name."""
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
    annotations = {facts.BIND_COMPLETED: YES}
    if not get(claim, "spec", "volumeName"):
        annotations[facts.BOUND_BY_CONTROLLER] = YES
    new = {
        **claim,
        "metadata": {**claim["metadata"], "annotations": _annotated(claim, **annotations)},
        "spec": {**claim["spec"], "volumeName": name},
    }
    return None if same(new, claim) else new


def bound_status(claim: Object, volume: Object) -> Object | None:
    """The claim with phase Bound. Its capacity is set only on binding; the provisioner updates it on
    expansion."""
    old_status: Object = claim.get("status") or {}
    status = {**old_status, "phase": "Bound", "accessModes": volume["spec"].get("accessModes") or []}
    if old_status.get("phase") != "Bound" or not old_status.get("capacity"):
        status["capacity"] = volume["spec"]["capacity"]
    return None if same(status, old_status) else {**claim, "status": status}


def unbound_status(claim: Object, phase: str) -> Object | None:
    old_status: Object = claim.get("status") or {}
    if old_status.get("phase") == phase:
        return None
    retained = {key: old_status[key] for key in old_status if key not in ("accessModes", "capacity")}
    return {**claim, "status": {**retained, "phase": phase}}
