"""Creation of a pod: validation beyond its spec, and fields that the server sets."""

from collections.abc import Mapping

from alcove.api.fields import FieldError, forbidden
from alcove.api.kinds.core.networks import refuse_two_networks
from alcove.api.kinds.core.pods.affinity import merge_label_keys
from alcove.api.kinds.core.pods.annotations import (
    MIRROR,
    check_pod_annotations,
    check_profiles_match,
    fill_apparmor_fields,
)
from alcove.api.kinds.core.pods.containers import check_image_spacing
from alcove.api.kinds.core.pods.defaults import fill_service_account_alias
from alcove.api.kinds.core.pods.spec import validate_pod_spec
from alcove.api.kinds.core.pods.totals import qos_class
from alcove.api.kinds.core.pods.valid_specs import ValidSpecs, key_of
from alcove.api.objects import Object
from alcove.api.validation import FieldErrors

_NO_ANNOTATIONS: Mapping[str, str] = {}
_VALID = ValidSpecs()


def validate_pod(pod: Object) -> list[FieldError]:
    """Check rules that hold for a pod at any time."""
    meta, spec = pod.get("metadata", {}), pod.get("spec", {})
    annotations = meta.get("annotations", _NO_ANNOTATIONS)
    refuse_two_networks(spec, meta.get("labels", {}), "spec")
    errors: list[FieldError] = []
    if annotations:
        check_pod_annotations(annotations, spec, "metadata.annotations", errors)
    known = key_of(meta.get("tenant", ""), spec)
    if known not in _VALID:
        found = _check_spec(spec, meta.get("name", ""))
        errors += found
        if not found and known is not None:
            _VALID.add(known)
    if spec.get("resourceClaims") and MIRROR in annotations:
        errors.append(forbidden("[]", "static pods do not support resource claims"))
    return errors


def _check_spec(spec: Object, pod_name: str) -> list[FieldError]:
    errors = validate_pod_spec(spec, "spec", pod_name=pod_name, is_pod=True)
    if not spec.get("serviceAccountName"):
        _check_no_tokens(spec, errors)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field, ())):
            check_image_spacing(container, f"spec.{field}[{index}]", errors)
    return errors


def _check_no_tokens(spec: Object, errors: FieldErrors) -> None:
    for index, volume in enumerate(spec.get("volumes", ())):
        for number, source in enumerate(volume.get("projected", {}).get("sources", ())):
            if "serviceAccountToken" in source:
                field = f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken"
                errors.append(forbidden(field, "must not be specified when serviceAccountName is not set"))


def validate_new_pod(pod: Object) -> list[FieldError]:
    """Check rules that hold only when a pod is created."""
    errors: list[FieldError] = []
    spec = pod.get("spec", {})
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        message = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden("spec.nodeName", message))
    if annotations := pod.get("metadata", {}).get("annotations"):
        check_profiles_match(annotations, spec, "spec", errors)
    return errors


def prepare_new_pod(pod: Object) -> None:
    """Set phase and QoS class; must be called after admission, which may still change resources."""
    spec = pod["spec"]
    fill_service_account_alias(spec)
    status: Object = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    pod["status"] = status
    if annotations := pod.get("metadata", {}).get("annotations"):
        fill_apparmor_fields(annotations, spec)
    if "affinity" in spec or "topologySpreadConstraints" in spec:
        merge_label_keys(spec, pod.get("metadata", {}).get("labels", {}))
