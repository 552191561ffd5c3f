"""The spec of a persistent volume claim: in a claim, a pod's ephemeral volume, or a template."""

from alcove.api import names
from alcove.api.fields import forbidden, invalid, required
from alcove.api.kinds.core.resources import check_amount, default_resource_list
from alcove.api.kinds.labelselectors import validate_label_selector
from alcove.api.kinds.metadata import validate_annotations, validate_labels
from alcove.api.objects import Object
from alcove.api.validation import (
    NOT_POSITIVE,
    FieldErrors,
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


def check_claim_template(template: Object, path: str, errors: FieldErrors) -> None:
    """Check `volumeClaimTemplate`; of its metadata only labels and annotations are used."""
    meta = template.get("metadata", {})
    errors += validate_annotations(meta.get("annotations", {}), f"{path}.metadata.annotations")
    errors += validate_labels(meta.get("labels", {}), f"{path}.metadata.labels")
    allowed = ("annotations", "labels")
    check_forbidden_fields(meta, allowed, "cannot be set", f"{path}.metadata", errors)
    check_claim_spec(template.get("spec", {}), f"{path}.spec", errors)


def check_claim_spec(spec: Object, path: str, errors: FieldErrors) -> None:
    _check_access_modes(spec, path, errors)
    _check_size(spec, path, errors)
    if class_name := spec.get("storageClassName"):
        check_value(class_name, names.dns_subdomain, f"{path}.storageClassName", errors)
    if "volumeMode" in spec:
        check_choice(spec["volumeMode"], VOLUME_MODES, f"{path}.volumeMode", errors)
    _check_data_sources(spec, path, errors)
    if class_name := spec.get("volumeAttributesClassName"):
        check_value(class_name, names.dns_subdomain, f"{path}.volumeAttributesClassName", errors)


def _check_access_modes(spec: Object, path: str, errors: FieldErrors) -> None:
    modes = spec.get("accessModes", ())
    if not modes:
        errors.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    errors += validate_label_selector(spec.get("selector"), f"{path}.selector")
    check_access_modes(modes, f"{path}.accessModes", errors)


def check_access_modes(modes: list[str], path: str, errors: FieldErrors) -> None:
    for mode in modes:
        check_choice(mode, ACCESS_MODES, path, errors)
    if "ReadWriteOncePod" in modes and any(
        mode != "ReadWriteOncePod" and mode in ACCESS_MODES for mode in modes
    ):
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))


def _check_size(spec: Object, path: str, errors: FieldErrors) -> None:
    field = f"{path}.resources[storage]"
    size = spec.get("resources", {}).get("requests", {}).get("storage")
    if size is None:
        errors.append(required(field))
        return
    before = len(errors)
    amount = check_amount("storage", size, field, errors)
    if amount is not None and amount.nano <= 0:
        errors[before:] = [invalid(field, str(amount), NOT_POSITIVE)]


def _check_data_sources(spec: Object, path: str, errors: FieldErrors) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None:
        _check_data_source(source, f"{path}.dataSource", errors)
    if reference is not None:
        _check_data_source(reference, f"{path}.dataSourceRef", errors)
        if namespace := reference.get("namespace"):
            check_value(namespace, names.dns_label, f"{path}.dataSourceRef.namespace", errors)
    if source is None or reference is None:
        return
    if reference.get("namespace"):
        message = "may not be specified when dataSourceRef.namespace is specified"
        errors.append(invalid(path, {}, message))
    elif any(source.get(field) != reference.get(field) for field in ("apiGroup", "kind", "name")):
        errors.append(invalid(path, {}, "must match dataSourceRef"))


def _check_data_source(source: Object, path: str, errors: FieldErrors) -> None:
    check_present(source.get("name"), f"{path}.name", errors)
    check_present(source.get("kind"), f"{path}.kind", errors)
    group = source.get("apiGroup", "")
    if group:
        check_value(group, names.dns_subdomain, f"{path}.apiGroup", errors)
    elif source.get("kind") != "PersistentVolumeClaim":
        message = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(invalid(path, source.get("kind", ""), message))
