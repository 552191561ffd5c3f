"""apiregistration.k8s.io: APIServices, which register the server of a group version."""

import base64
import binascii

from alcove.api import names
from alcove.api.fields import FieldError, invalid, required
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.kinds.checks import fill, named, one_of
from alcove.api.objects import Object, name

PORT_DEFAULT = 443
GROUP_PRIORITY_MAX = 20000
VERSION_PRIORITY_MAX = 1000


def default_api_service(obj: Object) -> None:
    service = (obj.get("spec") or {}).get("service")
    if service is not None:
        fill(service, "port", PORT_DEFAULT)


def validate_api_service(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = _identity(obj, spec)
    for field, maximum in (
        ("groupPriorityMinimum", GROUP_PRIORITY_MAX),
        ("versionPriority", VERSION_PRIORITY_MAX),
    ):
        if not 0 < spec.get(field, 0) <= maximum:
            message = f"must be positive and less than {maximum}"
            errors.append(invalid(f"spec.{field}", spec.get(field, 0), message))
    service = spec.get("service")
    return errors + (_local(spec) if service is None else _remote(spec, service))


def _identity(obj: Object, spec: Object) -> list[FieldError]:
    group, version = spec.get("group", ""), spec.get("version", "")
    errors: list[FieldError] = []
    proper = f"{version}.{group}"
    if name(obj) != proper and not names.path_segment(name(obj)):
        message = f'must be `spec.version+"."+spec.group`: "{proper}"'
        errors.append(invalid("metadata.name", name(obj), message))
    if group:
        errors += named(group, names.dns_subdomain, "spec.group")
    elif version != "v1":
        message = "only v1 may have an empty group and it better be legacy kube"
        errors.append(required("spec.group", message))
    return errors + named(version, names.dns_1035_label, "spec.version")


def _local(spec: Object) -> list[FieldError]:
    """Check an APIService that this server serves itself: it has no CA bundle and no TLS settings."""
    errors: list[FieldError] = []
    if spec.get("caBundle"):
        message = "local APIServices may not have a caBundle"
        errors.append(invalid("spec.caBundle", f"{_size(spec['caBundle'])} bytes", message))
    if spec.get("insecureSkipTLSVerify"):
        message = "local APIServices may not have insecureSkipTLSVerify"
        errors.append(invalid("spec.insecureSkipTLSVerify", True, message))
    return errors


def _size(text: str) -> int:
    try:
        return len(base64.b64decode(text))
    except (binascii.Error, ValueError):
        return len(text)


def _remote(spec: Object, service: Object) -> list[FieldError]:
    errors = [required(f"spec.service.{field}") for field in ("namespace", "name") if not service.get(field)]
    port = service.get("port", 0)
    if wrong := names.port_number(port):
        errors.append(invalid("spec.service.port", port, "port is not valid: " + ", ".join(wrong)))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        message = "may not be true if caBundle is present"
        errors.append(invalid("spec.insecureSkipTLSVerify", True, message))
    return errors


def validate_api_service_status(new: Object, _old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, condition in enumerate((new.get("status") or {}).get("conditions") or ()):
        path = f"status.conditions[{index}].status"
        errors += one_of(condition.get("status", ""), ("True", "False", "Unknown"), path)
    return errors


STRATEGIES: dict[str, Strategy] = {
    "apiservices": Strategy(
        default=default_api_service,
        validate=validate_api_service,
        validate_status=validate_api_service_status,
        status_leaves=CLIENT_METADATA,
        has_status=True,
        unconditional_update=False,
        validate_name=names.name_is_path_segment,
    ),
}
