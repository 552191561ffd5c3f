"""The spec of a persistent volume claim, wherever one stands: a claim, a pod's ephemeral volume, a template."""

from alcove.api import names
from alcove.api.fields import forbidden, invalid, required
from alcove.api.kinds.core.resources import check_amount, default_resource_list
from alcove.api.kinds.labelselectors import validate_label_selector
from alcove.api.kinds.metadata import validate_annotations, validate_labels
from alcove.api.objects import Object
from alcove.api.validation import (
    NOT_POSITIVE,
    Faults,
    check_choice,
    check_forbidden_fields,
    check_present,
    check_value,
)

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")


def default_claim_spec(spec: Object) -> None:
    if "volumeMode" not in spec:
        spec["volumeMode"] = "Filesystem"
    resources = spec.setdefault("resources", {})
    for side in ("limits", "requests"):
        if amounts := resources.get(side):
            default_resource_list(amounts)


def check_claim_template(template: Object, path: str, faults: Faults) -> None:
    """`volumeClaimTemplate`: of its metadata only labels and annotations count."""
    meta = template.get("metadata", {})
    faults += validate_annotations(meta.get("annotations", {}), f"{path}.metadata.annotations")
    faults += validate_labels(meta.get("labels", {}), f"{path}.metadata.labels")
    allowed = ("annotations", "labels")
    check_forbidden_fields(meta, allowed, "cannot be set", f"{path}.metadata", faults)
    check_claim_spec(template.get("spec", {}), f"{path}.spec", faults)


def check_claim_spec(spec: Object, path: str, faults: Faults) -> None:
    _check_access_modes(spec, path, faults)
    _check_size(spec, path, faults)
    if class_name := spec.get("storageClassName"):
        check_value(class_name, names.dns_subdomain, f"{path}.storageClassName", faults)
    if "volumeMode" in spec:
        check_choice(spec["volumeMode"], VOLUME_MODES, f"{path}.volumeMode", faults)
    _check_data_sources(spec, path, faults)
    if class_name := spec.get("volumeAttributesClassName"):
        check_value(class_name, names.dns_subdomain, f"{path}.volumeAttributesClassName", faults)


def _check_access_modes(spec: Object, path: str, faults: Faults) -> None:
    modes = spec.get("accessModes", ())
    if not modes:
        faults.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    faults += validate_label_selector(spec.get("selector"), f"{path}.selector")
    check_access_modes(modes, f"{path}.accessModes", faults)


def check_access_modes(modes: list[str], path: str, faults: Faults) -> None:
    for mode in modes:
        check_choice(mode, ACCESS_MODES, path, faults)
    if "ReadWriteOncePod" in modes and any(
        mode != "ReadWriteOncePod" and mode in ACCESS_MODES for mode in modes
    ):
        faults.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))


def _check_size(spec: Object, path: str, faults: Faults) -> None:
    field = f"{path}.resources[storage]"
    size = spec.get("resources", {}).get("requests", {}).get("storage")
    if size is None:
        faults.append(required(field))
        return
    before = len(faults)
    amount = check_amount("storage", size, field, faults)
    if amount is not None and amount.nano <= 0:
        faults[before:] = [invalid(field, str(amount), NOT_POSITIVE)]


def _check_data_sources(spec: Object, path: str, faults: Faults) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None:
        _check_data_source(source, f"{path}.dataSource", faults)
    if reference is not None:
        _check_data_source(reference, f"{path}.dataSourceRef", faults)
        if namespace := reference.get("namespace"):
            check_value(namespace, names.dns_label, f"{path}.dataSourceRef.namespace", faults)
    if source is None or reference is None:
        return
    if reference.get("namespace"):
        message = "may not be specified when dataSourceRef.namespace is specified"
        faults.append(invalid(path, {}, message))
    elif any(source.get(field) != reference.get(field) for field in ("apiGroup", "kind", "name")):
        faults.append(invalid(path, {}, "must match dataSourceRef"))


def _check_data_source(source: Object, path: str, faults: Faults) -> None:
    check_present(source.get("name"), f"{path}.name", faults)
    check_present(source.get("kind"), f"{path}.kind", faults)
    group = source.get("apiGroup", "")
    if group:
        check_value(group, names.dns_subdomain, f"{path}.apiGroup", faults)
    elif source.get("kind") != "PersistentVolumeClaim":
        message = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        faults.append(invalid(path, source.get("kind", ""), message))
