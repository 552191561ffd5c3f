"""What may change in a pod that exists: images, deadlines, tolerations; while it is gated, a little more."""

from collections.abc import Sequence
from typing import Any

from alcove.api import names
from alcove.api.fields import FieldError, forbidden, invalid, required
from alcove.api.kinds.core.networks import check_network_unchanged
from alcove.api.kinds.core.pods.annotations import check_annotation_changes
from alcove.api.kinds.core.pods.containers import check_image_spacing
from alcove.api.objects import Object, annotations
from alcove.api.validation import INT32_MAX, Faults, difference, same

_MAY_CHANGE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def validate_pod_update(new: Object, old: Object) -> list[FieldError]:
    faults: list[FieldError] = []
    check_annotation_changes(annotations(new), annotations(old), "metadata.annotations", faults)
    check_network_unchanged(new, old, faults)
    new_spec, old_spec = new.get("spec", {}), old.get("spec", {})
    if new_spec == old_spec:
        return faults
    for field in ("containers", "initContainers"):
        if not _check_containers(new_spec.get(field, ()), old_spec.get(field, ()), f"spec.{field}", faults):
            return faults
    if not _check_deadline(new_spec, old_spec, faults):
        return faults
    _check_tolerations(new_spec.get("tolerations", ()), old_spec.get("tolerations", ()), faults)
    _check_gates(new_spec.get("schedulingGates", ()), old_spec.get("schedulingGates", ()), faults)
    allowed = _with_allowed_changes(new_spec, old_spec, faults)
    if not same(allowed, new_spec):
        message = (
            f"pod updates may not change fields other than {_MAY_CHANGE}\n{difference(allowed, new_spec)}"
        )
        faults.append(forbidden("spec", message))
    return faults


def _check_containers(new: Sequence[Object], old: Sequence[Object], path: str, faults: Faults) -> bool:
    if len(new) != len(old):
        faults.append(forbidden(path, "pod updates may not add or remove containers"))
        return False
    for index, container in enumerate(new):
        if not container.get("image"):
            faults.append(required(f"{path}[{index}].image"))
        check_image_spacing(container, f"{path}[{index}]", faults)
    return True


def _check_deadline(new: Object, old: Object, faults: Faults) -> bool:
    """A deadline may come nearer, never move away."""
    field = "spec.activeDeadlineSeconds"
    seconds, before = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if seconds is None:
        if before is not None:
            message = "must not update from a positive integer to nil value"
            faults.append(invalid(field, None, message))
        return True
    if not 0 <= seconds <= INT32_MAX:
        faults.append(invalid(field, seconds, names.out_of_range(0, INT32_MAX)))
        return False
    if before is not None and before < seconds:
        faults.append(invalid(field, seconds, "must be less than or equal to previous value"))
        return False
    return True


def _check_tolerations(new: Sequence[Object], old: Sequence[Object], faults: Faults) -> None:
    kept = {_but_for_seconds(toleration) for toleration in new}
    if any(_but_for_seconds(toleration) not in kept for toleration in old):
        message = "existing toleration can not be modified except its tolerationSeconds"
        faults.append(forbidden("spec.tolerations", message))


def _but_for_seconds(toleration: Object) -> frozenset[tuple[str, str]]:
    return frozenset(
        (name, value) for name, value in toleration.items() if value and name != "tolerationSeconds"
    )


def _check_gates(new: Sequence[Object], old: Sequence[Object], faults: Faults) -> None:
    known = {gate.get("name") for gate in old}
    for index, gate in enumerate(new):
        if gate.get("name") not in known:
            message = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            faults.append(forbidden(f"spec.schedulingGates[{index}].name", message))


def _with_allowed_changes(new: Object, old: Object, faults: Faults) -> Object:
    """The old spec with every change of the new one that is allowed."""
    allowed = dict(old)
    for field in ("containers", "initContainers"):
        if field in old:
            allowed[field] = [
                {**before, "image": after.get("image", "")}
                for before, after in zip(old[field], new.get(field, ()), strict=True)
            ]
    for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        _take(field, new, allowed)
    if old.get("terminationGracePeriodSeconds", 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        allowed["terminationGracePeriodSeconds"] = 1
    if old.get("schedulingGates"):
        _check_gated_node_selector(new, old, faults)
        _take("nodeSelector", new, allowed)
        _check_gated_affinity(_node_affinity(new), _node_affinity(old), faults)
        affinity = dict(old.get("affinity", {}))
        _take("nodeAffinity", new.get("affinity", {}), affinity)
        allowed["affinity"] = affinity
    return allowed


def _take(field: str, new: Object, into: Object) -> None:
    if field in new:
        into[field] = new[field]
    else:
        into.pop(field, None)


def _check_gated_node_selector(new: Object, old: Object, faults: Faults) -> None:
    after = new.get("nodeSelector", {})
    if any(after.get(key) != value for key, value in old.get("nodeSelector", {}).items()):
        message = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        faults.append(invalid("spec.nodeSelector", after, message))


def _node_affinity(spec: Object) -> Object:
    return spec.get("affinity", {}).get("nodeAffinity", {})  # type: ignore[no-any-return]


def _check_gated_affinity(new: Object, old: Object, faults: Faults) -> None:
    """A gated pod may be told more narrowly where to run, not more widely."""
    before = old.get(_REQUIRED, {}).get("nodeSelectorTerms", ())
    after = new.get(_REQUIRED, {}).get("nodeSelectorTerms", ())
    field = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if before and len(before) != len(after):
        message = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        faults.append(invalid(field, after, message))
        return
    for index, (now, then) in enumerate(zip(after, before, strict=False)):
        if not _only_adds(now, then):
            message = "only additions are allowed (no mutations or deletions)"
            faults.append(invalid(f"{field}[{index}]", now, message))


def _only_adds(new: Object, old: Object) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(old.get(field) for field in fields):
        # An empty term matches no node; anything added to it would match some.
        return not any(new.get(field) for field in fields)
    return all(_starts_with(new.get(field, []), old.get(field, [])) for field in fields)


def _starts_with(new: list[Any], old: list[Any]) -> bool:
    return same(new[: len(old)], old)
