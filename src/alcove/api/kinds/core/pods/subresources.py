"""The pod's subresources that change its spec: ephemeral containers, resize, and binding to a node.

Each has a `prepare_…` that takes from the request only what the subresource is about, and a
`validate_…` that follows the rules of that change. Objects are not shared with the store's.
"""

import copy
from collections.abc import Sequence

from alcove.api.fields import FieldError, forbidden, invalid, not_supported, required
from alcove.api.kinds.core.pods.annotations import MIRROR, check_annotation_changes
from alcove.api.kinds.core.pods.create import validate_pod
from alcove.api.kinds.core.pods.totals import is_sidecar, qos_class
from alcove.api.objects import Object, annotations
from alcove.api.validation import Faults, difference, same

_RESIZED = ("cpu", "memory")


def prepare_ephemeral_containers(new: Object, old: Object) -> None:
    """Leaves of the request only its ephemeral containers."""
    containers = new.get("spec", {}).get("ephemeralContainers")
    spec = copy.deepcopy(old.get("spec", {}))
    spec.pop("ephemeralContainers", None)
    if containers:
        spec["ephemeralContainers"] = containers
    _replace(new, old, spec)


def _replace(new: Object, old: Object, spec: Object) -> None:
    meta = copy.deepcopy(old.get("metadata", {}))
    asked = new.get("metadata", {})
    for field in ("resourceVersion", "uid", "managedFields"):
        if field in asked:
            meta[field] = asked[field]
    new["metadata"], new["spec"] = meta, spec
    new["status"] = copy.deepcopy(old.get("status", {}))


def validate_ephemeral_containers(new: Object, old: Object) -> list[FieldError]:
    if MIRROR in annotations(old):
        return [forbidden("[]", "static pods do not support ephemeral containers")]
    faults = validate_pod(new)
    check_annotation_changes(annotations(new), annotations(old), "metadata.annotations", faults)
    field = "spec.ephemeralContainers"
    now = {
        container.get("name"): container for container in new.get("spec", {}).get("ephemeralContainers", ())
    }
    for before in old.get("spec", {}).get("ephemeralContainers", ()):
        name = before.get("name", "")
        if name not in now:
            faults.append(forbidden(field, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif not same(now[name], before):
            message = (
                f'existing ephemeral containers "{name}" may not be changed\n{difference(before, now[name])}'
            )
            faults.append(forbidden(field, message))
    return faults


def prepare_resize(new: Object, old: Object) -> None:
    """Leaves of the request only resources and resize policies, where the containers are the same ones."""
    asked, spec = new.get("spec", {}), copy.deepcopy(old.get("spec", {}))
    fields = ("containers", "initContainers")
    if any(len(asked.get(field, ())) != len(spec.get(field, ())) for field in fields):
        return
    for field in fields:
        if field not in asked:
            continue
        spec[field] = _resized(asked[field], spec[field])
    spec.pop("resources", None)
    if "resources" in asked:
        spec["resources"] = asked["resources"]
    _replace(new, old, spec)


def _resized(asked: list[Object], current: list[Object]) -> list[Object]:
    if [container.get("name") for container in asked] != [container.get("name") for container in current]:
        return asked
    for container, wanted in zip(current, asked, strict=True):
        for field in ("resources", "resizePolicy"):
            container.pop(field, None)
            if field in wanted:
                container[field] = wanted[field]
    return current


def validate_resize(new: Object, old: Object) -> list[FieldError]:
    if MIRROR in annotations(old):
        return [forbidden("[]", "static pods cannot be resized")]
    spec, before = new.get("spec", {}), old.get("spec", {})
    if before.get("os", {}).get("name") == "windows":
        return [forbidden("[]", "windows pods cannot be resized")]
    faults = validate_pod(new)
    was = old.get("status", {}).get("qosClass") or qos_class(before)
    if qos_class(spec) != was:
        message = "Pod QOS Class may not change as a result of resizing"
        faults.append(invalid("spec", new.get("status", {}).get("qosClass", ""), message))
    if not _node_resizes(old):
        faults.append(forbidden("spec", "Pod running on node without support for resize"))
    if spec.get("resources") or before.get("resources"):
        _check_pod_level(spec.get("resources"), before.get("resources"), faults)
    if not _check_order(spec, before, faults):
        return faults
    _check_removed(spec, before, faults)
    _check_only_resources(spec, before, faults)
    rest = ("containers", "initContainers", "resources")
    if not faults and not same(_except(spec, rest), _except(before, rest)):
        faults.append(forbidden("spec", "only cpu and memory resources are mutable"))
    return faults


def _node_resizes(pod: Object) -> bool:
    """A node that can resize reports the resources of running containers."""
    for status in pod.get("status", {}).get("containerStatuses", ()):
        if "running" in status.get("state", ()):
            return "resources" in status
    return True


def _check_order(new: Object, old: Object, faults: Faults) -> bool:
    before = len(faults)
    for field in ("containers", "initContainers"):
        now, then = new.get(field, ()), old.get(field, ())
        if len(now) != len(then):
            faults.append(forbidden(f"spec.{field}", f"{field} may not be added or removed on resize"))
            continue
        for index, container in enumerate(then):
            if now[index].get("name") != container.get("name"):
                message = f"{field} may not be renamed or reordered on resize"
                faults.append(forbidden(f"spec.{field}[{index}].name", message))
    return len(faults) == before


def _check_removed(new: Object, old: Object, faults: Faults) -> None:
    for field in ("initContainers", "containers"):
        for index, container in enumerate(old.get(field, ())):
            now, then = new[field][index].get("resources", {}), container.get("resources", {})
            for side in ("requests", "limits"):
                if then.get(side, {}).keys() - now.get(side, {}).keys():
                    message = f"resource {side} cannot be removed"
                    faults.append(forbidden(f"spec.{field}[{index}].resources.{side}", message))


def _check_only_resources(new: Object, old: Object, faults: Faults) -> None:
    for now, then in zip(new.get("containers", ()), old.get("containers", ()), strict=True):
        if not same(_unsized(now, ()), _unsized(then)):
            faults.append(forbidden("spec", "only cpu and memory resources are mutable"))
    for index, (now, then) in enumerate(
        zip(new.get("initContainers", ()), old.get("initContainers", ()), strict=True)
    ):
        field = f"spec.initContainers[{index}]"
        if not same(_unsized(now, ()), _unsized(then)):
            message = "only cpu and memory resources for init or sidecar containers are mutable"
            faults.append(forbidden(field, message))
        if not same(now, then) and not is_sidecar(now) and _restarts_to_resize(now):
            message = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
            faults.append(forbidden(field, message))


def _restarts_to_resize(container: Object) -> bool:
    return any(
        policy.get("restartPolicy") == "RestartContainer" for policy in container.get("resizePolicy", ())
    )


def _unsized(holder: Object, kept: Sequence[str] = ("claims",)) -> Object:
    """A container or pod without what may be resized.

    Of a new container no claims are kept: as in Kubernetes, one with claims cannot be resized.
    """
    resources = holder.get("resources", {})
    rest = {side: _except(resources[side], _RESIZED) for side in ("requests", "limits") if side in resources}
    return {
        **holder,
        "resources": {**rest, **{field: resources[field] for field in kept if field in resources}},
    }


def _except(obj: Object, fields: Sequence[str]) -> Object:
    return {name: value for name, value in obj.items() if name not in fields}


def _check_pod_level(new: Object | None, old: Object | None, faults: Faults) -> None:
    if old is not None and new is None:
        faults.append(forbidden("spec.resources", "pod-level resources cannot be removed"))
        return
    for side in ("requests", "limits"):
        if (old or {}).get(side, {}).keys() - (new or {}).get(side, {}).keys():
            message = f"pod-level resource {side} cannot be removed"
            faults.append(forbidden(f"spec.resources.{side}", message))
    if not same(_unsized({"resources": new or {}}), _unsized({"resources": old or {}})):
        faults.append(forbidden("spec", "only cpu and memory resources are mutable at pod-level"))


def validate_binding(binding: Object) -> list[FieldError]:
    """A Binding: the node a pod is given to."""
    faults: list[FieldError] = []
    target = binding.get("target", {})
    if target.get("kind") not in (None, "", "Node"):
        faults.append(not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        faults.append(required("target.name"))
    return faults
