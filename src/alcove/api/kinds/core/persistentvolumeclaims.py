"""PersistentVolumeClaims: requests for storage by size and class."""

from typing import Any

from alcove.api import names, quantity
from alcove.api.fields import FieldError, forbidden, invalid, not_supported, required
from alcove.api.kind import Strategy
from alcove.api.kinds.core.claims import check_claim_spec, default_claim_spec
from alcove.api.kinds.core.resources import default_resource_list, is_native
from alcove.api.kinds.metadata import immutable
from alcove.api.objects import Object, annotations, get
from alcove.api.quantity import Quantity
from alcove.api.validation import FieldErrors, difference, read_quantity, same

_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_RESIZE_STATES = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)
_SIZE = "spec.resources.requests.storage"
_ATTRIBUTES = "volumeAttributesClassName"


def _default(claim: Object) -> None:
    default_claim_spec(claim.setdefault("spec", {}))
    if "status" in claim:
        status = claim["status"]
        if not status.get("phase"):
            status["phase"] = "Pending"
        for field in ("capacity", "allocatedResources"):
            if amounts := status.get(field):
                default_resource_list(amounts)


def _validate(claim: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    check_claim_spec(claim.get("spec", {}), "spec", errors)
    return errors


def _prepare_create(claim: Object) -> None:
    spec = claim["spec"]
    source = spec.get("dataSource")
    if source is not None and "dataSourceRef" not in spec and not _is_copyable(source):
        del spec["dataSource"]
    _pair_data_sources(spec)
    claim["status"] = {"phase": "Pending"}


def _is_copyable(source: Object) -> bool:
    """The older field, `dataSource`, accepts only claims and snapshots; others are dropped."""
    kind, group = source.get("kind"), source.get("apiGroup", "")
    return (kind, group) in (("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io"))


def _pair_data_sources(spec: Object) -> None:
    """Copy `dataSource` and `dataSourceRef` to each other, where the older field can hold the value."""
    fields = ("apiGroup", "kind", "name")
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = {field: source[field] for field in fields if field in source}
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {field: reference[field] for field in fields if field in reference}


def _prepare_update(new: Object, _old: Object) -> None:
    _pair_data_sources(new["spec"])


def _storage(claim: Object, *path: str) -> Quantity:
    return read_quantity(get(claim, *path, default="0"), "", []) or quantity.ZERO


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    spec, before = new.get("spec", {}), old.get("spec", {})
    _check_class_annotation(new, old, errors)
    allowed = _with_allowed_changes(new, old)
    if not same(allowed, spec):
        message = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName "
            f"for bound claims\n{difference(allowed, spec)}"
        )
        errors.append(forbidden("spec", message))
    size = _storage(new, "spec", "resources", "requests", "storage")
    is_less = size < _storage(old, "spec", "resources", "requests", "storage")
    if is_less and size <= _storage(old, "status", "capacity", "storage"):
        errors.append(forbidden(_SIZE, "field can not be less than status.capacity"))
    immutable(spec.get("volumeMode"), before.get("volumeMode"), "volumeMode", errors)
    _check_attributes(spec, before, old, errors)
    return errors


def _with_allowed_changes(new: Object, old: Object) -> Object:
    spec, allowed = new.get("spec", {}), dict(old.get("spec", {}))
    if not allowed.get("volumeName"):
        _take("volumeName", spec, allowed)
    if "storageClassName" not in allowed and "storageClassName" in spec:
        annotated = annotations(old).get(_CLASS_ANNOTATION)
        if annotated is None or annotated == spec["storageClassName"]:
            allowed["storageClassName"] = spec["storageClassName"]
    if get(new, "status", "phase") == "Bound":
        _take(_ATTRIBUTES, spec, allowed)
        resources = dict(allowed.get("resources", {}))
        resources["requests"] = dict(resources.get("requests", {}))
        _take("storage", get(spec, "resources", "requests", default={}), resources["requests"])
        allowed["resources"] = resources
    return allowed


def _take(field: str, source: Object, into: Object) -> None:
    if field in source:
        into[field] = source[field]
    else:
        into.pop(field, None)


def _check_class_annotation(new: Object, old: Object, errors: FieldErrors) -> None:
    """The class may move from the old annotation to the field; otherwise the annotation is immutable."""
    was, now = annotations(old).get(_CLASS_ANNOTATION, ""), annotations(new).get(_CLASS_ANNOTATION, "")
    moves = was and not get(old, "spec", "storageClassName") and get(new, "spec", "storageClassName") == was
    if moves and now in ("", was):
        return
    immutable(now, was, f"metadata.annotations[{_CLASS_ANNOTATION}]", errors)


def _check_attributes(spec: Object, before: Object, old: Object, errors: FieldErrors) -> None:
    if spec.get(_ATTRIBUTES) == before.get(_ATTRIBUTES):
        return
    if get(old, "status", "currentVolumeAttributesClassName") is None or spec.get(_ATTRIBUTES):
        return
    new_value = "nil" if _ATTRIBUTES not in spec else "empty string"
    message = f"update to {new_value} is forbidden when status.currentVolumeAttributesClassName is not nil"
    errors.append(forbidden(f"spec.{_ATTRIBUTES}", message))


def _validate_status(new: Object, _old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    status = new.get("status", {})
    if not get(new, "spec", "accessModes"):
        errors.append(required("Spec.accessModes"))
    for resource, amount in status.get("capacity", {}).items():
        _check_amount(amount, f"status.capacity[{resource}]", errors)
    for resource, state in status.get("allocatedResourceStatuses", {}).items():
        _check_resource(resource, "status.allocatedResourceStatuses", errors)
        if state not in _RESIZE_STATES:
            errors.append(not_supported("status.allocatedResourceStatuses", resource, sorted(_RESIZE_STATES)))
    for resource, amount in status.get("allocatedResources", {}).items():
        if _check_resource(resource, "status.allocatedResources", errors):
            _check_amount(amount, f"status.allocatedResources[{resource}]", errors)
    return errors


def _check_amount(amount: Any, path: str, errors: FieldErrors) -> None:
    read = read_quantity(amount, path, errors)
    if read is not None and read.nano < 0:
        errors.append(invalid(path, read.value, "must be a valid resource quantity"))


def _check_resource(resource: str, path: str, errors: FieldErrors) -> bool:
    if messages := names.qualified_name(resource):
        errors += [invalid(path, resource, each) for each in messages]
        return False
    if is_native(resource) and resource != "storage":
        errors.append(not_supported(path, resource, ("storage",)))
        return False
    return True


STRATEGY = Strategy(
    default=_default,
    validate=_validate,
    validate_update=_validate_update,
    validate_status=_validate_status,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    has_status=True,
)
