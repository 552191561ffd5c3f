"""A container's environment: names, values, and references to their sources."""

from collections.abc import Sequence

from alcove.api import names, quantity
from alcove.api.fields import invalid, not_supported, required
from alcove.api.kinds.core.paths import check_no_backsteps
from alcove.api.objects import Object
from alcove.api.quantity import QuantityError
from alcove.api.validation import FieldErrors, check_name, check_value

ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_KNOWN_FIELDS = frozenset(
    (*ENV_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase")
)
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_BYTE_DIVISORS = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"]
_DIVISORS = {
    "cpu": (["1m", "1"], "cpu", " and "),
    "memory": (_BYTE_DIVISORS, "memory", ", "),
    "ephemeral-storage": (_BYTE_DIVISORS, "local ephemeral storage", ", "),
    "hugepages": (_BYTE_DIVISORS, "hugepages", ", "),
}
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def check_environment(container: Object, path: str, errors: FieldErrors) -> None:
    for index, variable in enumerate(container.get("env", ())):
        name = variable.get("name", "")
        if not name or names.relaxed_env_name(name):
            check_name(name, names.relaxed_env_name, f"{path}.env[{index}].name", errors)
        if "valueFrom" in variable:
            _check_value_from(variable, f"{path}.env[{index}].valueFrom", errors)
    if sources := container.get("envFrom"):
        _check_env_from(sources, f"{path}.envFrom", errors)


def _check_value_from(variable: Object, path: str, errors: FieldErrors) -> None:
    source = variable["valueFrom"]
    count = 0
    for kind in _SOURCES:
        if kind not in source:
            continue
        count += 1
        where, reference = f"{path}.{kind}", source[kind]
        if kind == "fieldRef":
            check_field_reference(reference, ENV_FIELDS, where, errors)
        elif kind == "resourceFieldRef":
            check_resource_reference(reference, False, where, errors)
        elif kind == "fileKeyRef":
            _check_file_key(reference, where, errors)
        else:
            _check_key(reference, where, errors)
    if not count:
        message = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        errors.append(invalid(path, "", message))
    elif variable.get("value"):
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif count > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))


def _check_key(reference: Object, path: str, errors: FieldErrors) -> None:
    check_value(reference.get("name", ""), names.dns_subdomain, f"{path}.name", errors)
    check_name(reference.get("key", ""), names.config_key, f"{path}.key", errors)


def _check_file_key(reference: Object, path: str, errors: FieldErrors) -> None:
    check_name(reference.get("key", ""), names.relaxed_env_name, f"{path}.key", errors)
    check_name(reference.get("volumeName", ""), names.dns_label, f"{path}.volumeName", errors)
    if not reference.get("path"):
        errors.append(required(f"{path}.path"))
    else:
        check_no_backsteps(reference["path"], f"{path}.path", errors)


def check_field_reference(
    reference: Object, supported: Sequence[str], path: str, errors: FieldErrors
) -> None:
    """Check `fieldRef`: a field of the pod, or one label or annotation (`metadata.labels['key']`)."""
    version, field = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    if not version:
        errors.append(required(f"{path}.apiVersion"))
    elif not field:
        errors.append(required(f"{path}.fieldPath"))
    elif field not in supported or version != "v1":
        _check_odd_field(version, field, supported, path, errors)


def _check_odd_field(
    version: str, field: str, supported: Sequence[str], path: str, errors: FieldErrors
) -> None:
    base, quote, key = field.removesuffix("']").partition("['") if field.endswith("']") else (field, "", "")
    unconvertible = ""
    if version != "v1":
        unconvertible = f"unsupported pod version: {version}"
    elif base and quote:
        if base not in ("metadata.annotations", "metadata.labels"):
            unconvertible = f"field label does not support subscript: {field}"
    elif field not in _KNOWN_FIELDS and field != "spec.host":
        unconvertible = f"field label not supported: {field}"
    if unconvertible:
        errors.append(invalid(f"{path}.fieldPath", field, f"error converting fieldPath: {unconvertible}"))
    elif base and quote:
        check_value(
            key.lower() if base == "metadata.annotations" else key, names.qualified_name, path, errors
        )
    elif not (field == "spec.host" and "spec.nodeName" in supported):
        errors.append(not_supported(f"{path}.fieldPath", field, supported))


def check_resource_reference(reference: Object, in_volume: bool, path: str, errors: FieldErrors) -> None:
    """Check `resourceFieldRef`: one of a container's requests or limits, in units of the divisor."""
    resource = reference.get("resource", "")
    if in_volume and not reference.get("containerName"):
        errors.append(required(f"{path}.containerName"))
    elif not resource:
        errors.append(required(f"{path}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        errors.append(not_supported(f"{path}.resource", resource, _RESOURCES))
    _check_divisor(resource, reference.get("divisor", "0"), f"{path}.divisor", errors)


def _check_divisor(resource: str, divisor: str, path: str, errors: FieldErrors) -> None:
    try:
        shown = quantity.canonical(divisor)
    except QuantityError as error:
        errors.append(invalid(path, divisor, str(error)))
        return
    kind = "hugepages" if resource.startswith(_HUGE_PAGES) else resource.partition(".")[2]
    if shown == "0" or kind not in _DIVISORS:
        return
    supported, description, joint = _DIVISORS[kind]
    if shown not in supported:
        message = (
            f"only divisor's values {joint.join(supported)} are supported with the {description} resource"
        )
        errors.append(invalid(path, resource, message))


def _check_env_from(sources: Sequence[Object], path: str, errors: FieldErrors) -> None:
    for index, source in enumerate(sources):
        if prefix := source.get("prefix"):
            check_value(prefix, names.relaxed_env_name, f"{path}[{index}].prefix", errors)
        count = 0
        for kind in ("configMapRef", "secretRef"):
            if kind not in source:
                continue
            count += 1
            _check_env_source(source[kind].get("name", ""), f"{path}[{index}].{kind}.name", errors)
        if not count:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif count > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))


def _check_env_source(name: str, path: str, errors: FieldErrors) -> None:
    if not name:
        errors.append(required(path))
    else:
        errors += [invalid(path, name, message) for message in names.name_is_dns_subdomain(name, True)]
