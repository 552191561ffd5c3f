"""The pod's subresources that change its spec: ephemeral containers, resize, and binding to a node.

Each has a `prepare_…` that takes from the request only the fields of the subresource, and a `validate_…` with
the rules of that change. Objects are not shared with the store's.
"""

import copy
from collections.abc import Sequence

from alcove.api.fields import FieldError, forbidden, invalid, not_supported, required
from alcove.api.kinds.core.pods.annotations import MIRROR, check_annotation_changes
from alcove.api.kinds.core.pods.create import validate_pod
from alcove.api.kinds.core.pods.totals import is_sidecar, qos_class
from alcove.api.objects import Object, annotations
from alcove.api.validation import FieldErrors, difference, same

_RESIZED = ("cpu", "memory")


def prepare_ephemeral_containers(new: Object, old: Object) -> None:
    """Keep of the request only its ephemeral containers."""
    containers = new.get("spec", {}).get("ephemeralContainers")
    spec = copy.deepcopy(old.get("spec", {}))
    spec.pop("ephemeralContainers", None)
    if containers:
        spec["ephemeralContainers"] = containers
    _replace(new, old, spec)


def _replace(new: Object, old: Object, spec: Object) -> None:
    meta = copy.deepcopy(old.get("metadata", {}))
    requested = new.get("metadata", {})
    for field in ("resourceVersion", "uid", "managedFields"):
        if field in requested:
            meta[field] = requested[field]
    new["metadata"], new["spec"] = meta, spec
    new["status"] = copy.deepcopy(old.get("status", {}))


def validate_ephemeral_containers(new: Object, old: Object) -> list[FieldError]:
    if MIRROR in annotations(old):
        return [forbidden("[]", "static pods do not support ephemeral containers")]
    errors = validate_pod(new)
    check_annotation_changes(annotations(new), annotations(old), "metadata.annotations", errors)
    field = "spec.ephemeralContainers"
    now = {
        container.get("name"): container for container in new.get("spec", {}).get("ephemeralContainers", ())
    }
    for before in old.get("spec", {}).get("ephemeralContainers", ()):
        name = before.get("name", "")
        if name not in now:
            errors.append(forbidden(field, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif not same(now[name], before):
            message = (
                f'existing ephemeral containers "{name}" may not be changed\n{difference(before, now[name])}'
            )
            errors.append(forbidden(field, message))
    return errors


def prepare_resize(new: Object, old: Object) -> None:
    """Keep of the request only resources and resize policies, if the containers are the same."""
    requested, spec = new.get("spec", {}), copy.deepcopy(old.get("spec", {}))
    fields = ("containers", "initContainers")
    if any(len(requested.get(field, ())) != len(spec.get(field, ())) for field in fields):
        return
    for field in fields:
        if field not in requested:
            continue
        spec[field] = _resized(requested[field], spec[field])
    spec.pop("resources", None)
    if "resources" in requested:
        spec["resources"] = requested["resources"]
    _replace(new, old, spec)


def _resized(requested: list[Object], current: list[Object]) -> list[Object]:
    if [container.get("name") for container in requested] != [container.get("name") for container in current]:
        return requested
    for container, desired in zip(current, requested, strict=True):
        for field in ("resources", "resizePolicy"):
            container.pop(field, None)
            if field in desired:
                container[field] = desired[field]
    return current


def validate_resize(new: Object, old: Object) -> list[FieldError]:
    if MIRROR in annotations(old):
        return [forbidden("[]", "static pods cannot be resized")]
    spec, before = new.get("spec", {}), old.get("spec", {})
    if before.get("os", {}).get("name") == "windows":
        return [forbidden("[]", "windows pods cannot be resized")]
    errors = validate_pod(new)
    was = old.get("status", {}).get("qosClass") or qos_class(before)
    if qos_class(spec) != was:
        message = "Pod QOS Class may not change as a result of resizing"
        errors.append(invalid("spec", new.get("status", {}).get("qosClass", ""), message))
    if not _node_resizes(old):
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    if spec.get("resources") or before.get("resources"):
        _check_pod_level(spec.get("resources"), before.get("resources"), errors)
    if not _check_order(spec, before, errors):
        return errors
    _check_removed(spec, before, errors)
    _check_only_resources(spec, before, errors)
    rest = ("containers", "initContainers", "resources")
    if not errors and not same(_except(spec, rest), _except(before, rest)):
        errors.append(forbidden("spec", "only cpu and memory resources are mutable"))
    return errors


def _node_resizes(pod: Object) -> bool:
    """Whether the node supports resize: then it reports the resources of running containers."""
    for status in pod.get("status", {}).get("containerStatuses", ()):
        if "running" in status.get("state", ()):
            return "resources" in status
    return True


def _check_order(new: Object, old: Object, errors: FieldErrors) -> bool:
    before = len(errors)
    for field in ("containers", "initContainers"):
        now, then = new.get(field, ()), old.get(field, ())
        if len(now) != len(then):
            errors.append(forbidden(f"spec.{field}", f"{field} may not be added or removed on resize"))
            continue
        for index, container in enumerate(then):
            if now[index].get("name") != container.get("name"):
                message = f"{field} may not be renamed or reordered on resize"
                errors.append(forbidden(f"spec.{field}[{index}].name", message))
    return len(errors) == before


def _check_removed(new: Object, old: Object, errors: FieldErrors) -> None:
    for field in ("initContainers", "containers"):
        for index, container in enumerate(old.get(field, ())):
            now, then = new[field][index].get("resources", {}), container.get("resources", {})
            for side in ("requests", "limits"):
                if then.get(side, {}).keys() - now.get(side, {}).keys():
                    message = f"resource {side} cannot be removed"
                    errors.append(forbidden(f"spec.{field}[{index}].resources.{side}", message))


def _check_only_resources(new: Object, old: Object, errors: FieldErrors) -> None:
    for now, then in zip(new.get("containers", ()), old.get("containers", ()), strict=True):
        if not same(_unsized(now, ()), _unsized(then)):
            errors.append(forbidden("spec", "only cpu and memory resources are mutable"))
    for index, (now, then) in enumerate(
        zip(new.get("initContainers", ()), old.get("initContainers", ()), strict=True)
    ):
        field = f"spec.initContainers[{index}]"
        if not same(_unsized(now, ()), _unsized(then)):
            message = "only cpu and memory resources for init or sidecar containers are mutable"
            errors.append(forbidden(field, message))
        if not same(now, then) and not is_sidecar(now) and _restarts_to_resize(now):
            message = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
            errors.append(forbidden(field, message))


def _restarts_to_resize(container: Object) -> bool:
    return any(
        policy.get("restartPolicy") == "RestartContainer" for policy in container.get("resizePolicy", ())
    )


def _unsized(holder: Object, retained: Sequence[str] = ("claims",)) -> Object:
    """Return a container or pod without the fields that may be resized.

    Claims of a new container are not kept: as in Kubernetes, a container with claims cannot be resized.
    """
    resources = holder.get("resources", {})
    rest = {side: _except(resources[side], _RESIZED) for side in ("requests", "limits") if side in resources}
    return {
        **holder,
        "resources": {**rest, **{field: resources[field] for field in retained if field in resources}},
    }


def _except(obj: Object, fields: Sequence[str]) -> Object:
    return {name: value for name, value in obj.items() if name not in fields}


def _check_pod_level(new: Object | None, old: Object | None, errors: FieldErrors) -> None:
    if old is not None and new is None:
        errors.append(forbidden("spec.resources", "pod-level resources cannot be removed"))
        return
    for side in ("requests", "limits"):
        if (old or {}).get(side, {}).keys() - (new or {}).get(side, {}).keys():
            message = f"pod-level resource {side} cannot be removed"
            errors.append(forbidden(f"spec.resources.{side}", message))
    if not same(_unsized({"resources": new or {}}), _unsized({"resources": old or {}})):
        errors.append(forbidden("spec", "only cpu and memory resources are mutable at pod-level"))


def validate_binding(binding: Object) -> list[FieldError]:
    """Check a Binding: the node that a pod is assigned to."""
    errors: list[FieldError] = []
    target = binding.get("target", {})
    if target.get("kind") not in (None, "", "Node"):
        errors.append(not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(required("target.name"))
    return errors
