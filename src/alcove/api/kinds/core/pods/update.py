"""Allowed changes of an existing pod: images, deadlines, tolerations; of a gated pod, a few more."""

from collections.abc import Sequence
from typing import Any

from alcove.api import names
from alcove.api.fields import FieldError, forbidden, invalid, required
from alcove.api.kinds.core.networks import check_network_unchanged
from alcove.api.kinds.core.pods.annotations import check_annotation_changes
from alcove.api.kinds.core.pods.containers import check_image_spacing
from alcove.api.objects import Object, annotations
from alcove.api.validation import INT32_MAX, FieldErrors, difference, same

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
    errors: list[FieldError] = []
    check_annotation_changes(annotations(new), annotations(old), "metadata.annotations", errors)
    check_network_unchanged(new, old, errors)
    new_spec, old_spec = new.get("spec", {}), old.get("spec", {})
    if new_spec == old_spec:
        return errors
    for field in ("containers", "initContainers"):
        if not _check_containers(new_spec.get(field, ()), old_spec.get(field, ()), f"spec.{field}", errors):
            return errors
    if not _check_deadline(new_spec, old_spec, errors):
        return errors
    _check_tolerations(new_spec.get("tolerations", ()), old_spec.get("tolerations", ()), errors)
    _check_gates(new_spec.get("schedulingGates", ()), old_spec.get("schedulingGates", ()), errors)
    allowed = _with_allowed_changes(new_spec, old_spec, errors)
    if not same(allowed, new_spec):
        message = (
            f"pod updates may not change fields other than {_MAY_CHANGE}\n{difference(allowed, new_spec)}"
        )
        errors.append(forbidden("spec", message))
    return errors


def _check_containers(new: Sequence[Object], old: Sequence[Object], path: str, errors: FieldErrors) -> bool:
    if len(new) != len(old):
        errors.append(forbidden(path, "pod updates may not add or remove containers"))
        return False
    for index, container in enumerate(new):
        if not container.get("image"):
            errors.append(required(f"{path}[{index}].image"))
        check_image_spacing(container, f"{path}[{index}]", errors)
    return True


def _check_deadline(new: Object, old: Object, errors: FieldErrors) -> bool:
    """A deadline may become shorter, never longer."""
    field = "spec.activeDeadlineSeconds"
    seconds, before = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if seconds is None:
        if before is not None:
            message = "must not update from a positive integer to nil value"
            errors.append(invalid(field, None, message))
        return True
    if not 0 <= seconds <= INT32_MAX:
        errors.append(invalid(field, seconds, names.out_of_range(0, INT32_MAX)))
        return False
    if before is not None and before < seconds:
        errors.append(invalid(field, seconds, "must be less than or equal to previous value"))
        return False
    return True


def _check_tolerations(new: Sequence[Object], old: Sequence[Object], errors: FieldErrors) -> None:
    new_tolerations = {_without_seconds(toleration) for toleration in new}
    if any(_without_seconds(toleration) not in new_tolerations for toleration in old):
        message = "existing toleration can not be modified except its tolerationSeconds"
        errors.append(forbidden("spec.tolerations", message))


def _without_seconds(toleration: Object) -> frozenset[tuple[str, str]]:
    return frozenset(
        (name, value) for name, value in toleration.items() if value and name != "tolerationSeconds"
    )


def _check_gates(new: Sequence[Object], old: Sequence[Object], errors: FieldErrors) -> None:
    old_gates = {gate.get("name") for gate in old}
    for index, gate in enumerate(new):
        if gate.get("name") not in old_gates:
            message = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            errors.append(forbidden(f"spec.schedulingGates[{index}].name", message))


def _with_allowed_changes(new: Object, old: Object, errors: FieldErrors) -> Object:
    """Return the old spec with all allowed changes of the new one."""
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
        _check_gated_node_selector(new, old, errors)
        _take("nodeSelector", new, allowed)
        _check_gated_affinity(_node_affinity(new), _node_affinity(old), errors)
        affinity = dict(old.get("affinity", {}))
        _take("nodeAffinity", new.get("affinity", {}), affinity)
        allowed["affinity"] = affinity
    return allowed


def _take(field: str, new: Object, into: Object) -> None:
    if field in new:
        into[field] = new[field]
    else:
        into.pop(field, None)


def _check_gated_node_selector(new: Object, old: Object, errors: FieldErrors) -> None:
    after = new.get("nodeSelector", {})
    if any(after.get(key) != value for key, value in old.get("nodeSelector", {}).items()):
        message = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(invalid("spec.nodeSelector", after, message))


def _node_affinity(spec: Object) -> Object:
    return spec.get("affinity", {}).get("nodeAffinity", {})  # type: ignore[no-any-return]


def _check_gated_affinity(new: Object, old: Object, errors: FieldErrors) -> None:
    """A gated pod's node affinity may be narrowed, not widened."""
    before = old.get(_REQUIRED, {}).get("nodeSelectorTerms", ())
    after = new.get(_REQUIRED, {}).get("nodeSelectorTerms", ())
    field = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if before and len(before) != len(after):
        message = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        errors.append(invalid(field, after, message))
        return
    for index, (now, then) in enumerate(zip(after, before, strict=False)):
        if not _only_adds(now, then):
            message = "only additions are allowed (no mutations or deletions)"
            errors.append(invalid(f"{field}[{index}]", now, message))


def _only_adds(new: Object, old: Object) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(old.get(field) for field in fields):
        # An empty term matches no node; adding anything to it would make it match some.
        return not any(new.get(field) for field in fields)
    return all(_starts_with(new.get(field, []), old.get(field, [])) for field in fields)


def _starts_with(new: list[Any], old: list[Any]) -> bool:
    return same(new[: len(old)], old)
