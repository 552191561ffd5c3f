"""storage.k8s.io: storage classes, CSI drivers, CSI nodes, volume attachments."""

from collections.abc import Mapping
from typing import Any

from alcove.api import names, quantity
from alcove.api.fields import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
)
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.kinds.checks import child, fill, named, not_negative, one_of, one_of_required, unchanged
from alcove.api.kinds.core.volumesources import check_csi_driver
from alcove.api.kinds.labelselectors import validate_label_selector
from alcove.api.objects import Object
from alcove.api.validation import NOT_NEGATIVE, same

PARAMETERS_MAX = 512
PARAMETERS_SIZE_MAX_BYTES = 256 * 1024
ERROR_MESSAGE_LENGTH_MAX_BYTES = 1024
NODE_ID_LENGTH_MAX_BYTES = 256
TOKEN_SECONDS_MIN = 600
TOKEN_SECONDS_MAX = 1 << 32

RECLAIM_POLICIES = ("Delete", "Retain")
BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
FS_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
LIFECYCLE_MODES = ("Persistent", "Ephemeral")


def _bytes(texts: Mapping[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in texts.items())


def _provisioner(value: str, path: str) -> list[FieldError]:
    return named(value.lower(), names.qualified_name, path) if value else [required(path)]


def _parameters(parameters: Mapping[str, str], path: str) -> list[FieldError]:
    if len(parameters) > PARAMETERS_MAX:
        return [too_long(path, PARAMETERS_MAX)]
    errors: list[FieldError] = []
    if "" in parameters:
        errors.append(invalid(path, "", "field can not be empty."))
    if _bytes(parameters) > PARAMETERS_SIZE_MAX_BYTES:
        errors.append(too_long(path, PARAMETERS_SIZE_MAX_BYTES))
    return errors


def default_storage_class(obj: Object) -> None:
    fill(obj, "reclaimPolicy", "Delete")
    fill(obj, "volumeBindingMode", "Immediate")


def validate_storage_class(obj: Object) -> list[FieldError]:
    errors = _provisioner(obj.get("provisioner", ""), "provisioner")
    errors += _parameters(obj.get("parameters") or {}, "parameters")
    if obj.get("reclaimPolicy"):
        errors += one_of(obj["reclaimPolicy"], RECLAIM_POLICIES, "reclaimPolicy")
    errors += one_of_required(obj.get("volumeBindingMode", ""), BINDING_MODES, "volumeBindingMode")
    return errors + _allowed_topologies(obj)


def _allowed_topologies(obj: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: list[dict[str, frozenset[str]]] = []
    for index, term in enumerate(obj.get("allowedTopologies") or ()):
        path = f"allowedTopologies[{index}].matchLabelExpressions"
        expressions: dict[str, frozenset[str]] = {}
        for at, requirement in enumerate(term.get("matchLabelExpressions") or ()):
            key, values = requirement.get("key", ""), requirement.get("values") or ()
            if not values:
                errors.append(required(f"{path}[{at}].values"))
            for position, value in enumerate(values):
                if value in values[:position]:
                    errors.append(duplicate(f"{path}[{at}].values[{position}]", value))
            errors += named(key, names.label_key, f"{path}[{at}].key")
            if key in expressions:
                errors.append(duplicate(f"{path}[{at}].key", key))
            expressions[key] = frozenset(values)
        if expressions in seen:
            errors.append(duplicate(path, ""))
        seen.append(expressions)
    return errors


def validate_storage_class_update(new: Object, old: Object) -> list[FieldError]:
    return unchanged(new, old, "", "parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")


def validate_attributes_class(obj: Object) -> list[FieldError]:
    parameters = obj.get("parameters") or {}
    errors = _provisioner(obj.get("driverName", ""), "driverName") + _parameters(parameters, "parameters")
    if not parameters:
        errors.append(required("parameters", "must contain at least one key/value pair"))
    return errors


def validate_attributes_class_update(new: Object, old: Object) -> list[FieldError]:
    return [
        forbidden(field, f"updates to {field} are forbidden.")
        for field in ("driverName", "parameters")
        if not same({field: new.get(field)}, {field: old.get(field)})
    ]


def default_csi_driver(obj: Object) -> None:
    spec = child(obj, "spec")
    fill(spec, "attachRequired", True)
    for field in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
        fill(spec, field, False)
    fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType")
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def validate_csi_driver(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = one_of(spec.get("fsGroupPolicy", ""), FS_GROUP_POLICIES, "spec.fsGroupPolicy")
    errors += _token_requests(spec)
    for mode in spec.get("volumeLifecycleModes") or ():
        errors += one_of(mode, LIFECYCLE_MODES, "spec.volumeLifecycleModes")
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        message = "must be greater than or equal to 10 seconds"
        errors.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, message))
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not spec.get("tokenRequests"):
        message = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        errors.append(invalid("spec.serviceAccountTokenInSecrets", in_secrets, message))
    return errors


def _token_requests(spec: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    audiences: set[str] = set()
    for index, request in enumerate(spec.get("tokenRequests") or ()):
        path, audience = f"spec.tokenRequests[{index}]", request.get("audience", "")
        if audience in audiences:
            errors.append(duplicate(f"{path}.audience", audience))
            continue
        audiences.add(audience)
        seconds = request.get("expirationSeconds", TOKEN_SECONDS_MIN)
        if seconds < TOKEN_SECONDS_MIN:
            message = "may not specify a duration less than 10 minutes"
            errors.append(invalid(f"{path}.expirationSeconds", seconds, message))
        if seconds > TOKEN_SECONDS_MAX:
            message = "may not specify a duration larger than 2^32 seconds"
            errors.append(invalid(f"{path}.expirationSeconds", seconds, message))
    return errors


def validate_csi_driver_update(new: Object, old: Object) -> list[FieldError]:
    errors = unchanged(new.get("spec") or {}, old.get("spec") or {}, "spec", "volumeLifecycleModes")
    now, before = (each.get("spec", {}).get("attachRequired") for each in (new, old))
    if now != before:
        # This is Kubernetes' name of the field.
        errors.insert(0, invalid("spec.attachedRequired", now, "field is immutable"))
    return errors


def validate_csi_node(obj: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, driver in enumerate((obj.get("spec") or {}).get("drivers") or ()):
        path, name = f"spec.drivers[{index}]", driver.get("name", "")
        check_csi_driver(name, f"{path}.name", errors)
        errors += _node_id(driver, path)
        errors += not_negative(driver.get("allocatable") or {}, f"{path}.allocatable", "count")
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
        errors += _topology_keys(driver.get("topologyKeys") or [], path)
    return errors


def _node_id(driver: Object, path: str) -> list[FieldError]:
    node_id = driver.get("nodeID", "")
    if not node_id:
        return [required(f"{path}.nodeID")]
    if len(node_id.encode()) <= NODE_ID_LENGTH_MAX_BYTES:
        return []
    return [invalid(f"{path}.nodeID", node_id, f"must be {NODE_ID_LENGTH_MAX_BYTES} characters or less")]


def _topology_keys(keys: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, key in enumerate(keys):
        if not key:
            errors.append(required(path))
        if key in keys[:index]:
            errors.append(duplicate(path, key))
        errors += named(key, names.qualified_name, path)
    return errors


def validate_csi_node_update(new: Object, old: Object) -> list[FieldError]:
    """A driver that stays in the list may change only its number of allocatable volumes."""
    before = [_without_allocatable(driver) for driver in (old.get("spec") or {}).get("drivers") or ()]
    errors: list[FieldError] = []
    for driver in map(_without_allocatable, (new.get("spec") or {}).get("drivers") or ()):
        same_name = [other for other in before if other.get("name") == driver.get("name")]
        if same_name and not any(same(driver, other) for other in same_name):
            errors.append(invalid("spec.drivers", driver, "field is immutable"))
    return errors


def _without_allocatable(driver: Object) -> Object:
    return {field: value for field, value in driver.items() if field != "allocatable"}


def validate_csi_node_status(new: Object, _old: Object) -> list[FieldError]:
    seen: set[str] = set()
    errors: list[FieldError] = []
    for index, health in enumerate((new.get("status") or {}).get("storageHealth") or ()):
        name = health.get("name", "")
        if name in seen:
            errors.append(duplicate(f"status.storageHealth[{index}]", name))
        seen.add(name)
    return errors


def validate_attachment(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    check_csi_driver(spec.get("attacher", ""), "spec.attacher", errors)
    errors += _attachment_source(spec.get("source") or {})
    return errors + named(spec.get("nodeName", ""), names.dns_subdomain, "spec.nodeName")


def _attachment_source(source: Object) -> list[FieldError]:
    path, message = "spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and name is None:
        return [required(path, message)]
    if inline is not None and name is not None:
        return [forbidden(path, message)]
    if name is None:
        return []
    if not name:
        return [required(f"{path}.persistentVolumeName", "must specify non empty persistentVolumeName")]
    return named(name, names.dns_subdomain, f"{path}.persistentVolumeName")


def validate_attachment_update(new: Object, old: Object) -> list[FieldError]:
    return unchanged(new, old, "", "spec")


def validate_attachment_status(new: Object, _old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    errors: list[FieldError] = []
    if _bytes(status.get("attachmentMetadata") or {}) > PARAMETERS_SIZE_MAX_BYTES:
        errors.append(too_long("status.attachmentMetadata", PARAMETERS_SIZE_MAX_BYTES))
    for field in ("attachError", "detachError"):
        error: dict[str, Any] = status.get(field) or {}
        if len(error.get("message", "").encode()) > ERROR_MESSAGE_LENGTH_MAX_BYTES:
            errors.append(too_long(f"status.{field}.message", ERROR_MESSAGE_LENGTH_MAX_BYTES))
        if error.get("errorCode", 0) < 0:
            message = names.out_of_range(0, 2**31 - 1)
            errors.append(invalid(f"status.{field}.errorCode", error["errorCode"], message))
    return errors


def validate_capacity(obj: Object) -> list[FieldError]:
    errors = validate_label_selector(obj.get("nodeTopology"), "nodeTopology")
    errors += named(obj.get("storageClassName", ""), names.dns_subdomain, "storageClassName")
    if "capacity" in obj and quantity.of(obj["capacity"]).nano < 0:
        errors.append(invalid("capacity", quantity.canonical(obj["capacity"]), NOT_NEGATIVE))
    return errors


def validate_capacity_update(new: Object, old: Object) -> list[FieldError]:
    return unchanged(new, old, "", "nodeTopology", "storageClassName")


STRATEGIES: dict[str, Strategy] = {
    "storageclasses": Strategy(
        default=default_storage_class,
        validate=validate_storage_class,
        validate_update=validate_storage_class_update,
    ),
    "volumeattributesclasses": Strategy(
        validate=validate_attributes_class,
        validate_update=validate_attributes_class_update,
    ),
    "csidrivers": Strategy(
        default=default_csi_driver,
        validate=validate_csi_driver,
        validate_update=validate_csi_driver_update,
        counts_generation=True,
        unconditional_update=False,
    ),
    "csinodes": Strategy(
        validate=validate_csi_node,
        validate_update=validate_csi_node_update,
        validate_status=validate_csi_node_status,
        status_leaves=CLIENT_METADATA,
        has_status=True,
        unconditional_update=False,
    ),
    "volumeattachments": Strategy(
        validate=validate_attachment,
        validate_update=validate_attachment_update,
        validate_status=validate_attachment_status,
        status_leaves=CLIENT_METADATA,
        has_status=True,
        unconditional_update=False,
    ),
    "csistoragecapacities": Strategy(
        validate=validate_capacity,
        validate_update=validate_capacity_update,
        unconditional_update=False,
    ),
}
