"""storagemigration.k8s.io: migrations of a resource's stored objects to its current storage version."""

from alcove.api import names
from alcove.api.fields import FieldError, invalid, required
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.kinds.checks import IMMUTABLE, conditions, refused, unchanged
from alcove.api.objects import Object, get

SUCCEEDED, FAILED = "Succeeded", "Failed"


def validate_migration(obj: Object) -> list[FieldError]:
    wanted = get(obj, "spec", "resource", default={})
    path, resource, group = "spec.resource", wanted.get("resource", ""), wanted.get("group", "")
    errors: list[FieldError] = []
    if not resource:
        errors.append(required(f"{path}.resource", "resource is required to be set"))
    elif messages := names.dns_1035_label(resource):
        errors.append(invalid(f"{path}.resource", resource, ",".join(messages)))
    if group and (messages := names.dns_subdomain(group)):
        errors.append(invalid(f"{path}.group", group, ",".join(messages)))
    return errors


def has_condition(obj: Object, kind: str) -> bool:
    found = get(obj, "status", "conditions", default=())
    return any(each.get("type") == kind and each.get("status") == "True" for each in found)


def validate_status(new: Object, old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    version, before = status.get("resourceVersion", ""), get(old, "status", "resourceVersion", default="")
    errors: list[FieldError] = []
    if version and not (version.isascii() and version.isdecimal()):
        errors.append(invalid("status.resourceVersion", version, "resource version is not well formed"))
    errors += conditions(status.get("conditions") or [], "status.conditions")
    if before and version != before:
        errors.append(invalid("status.resourceVersion", version, IMMUTABLE))
    if has_condition(new, SUCCEEDED) and has_condition(new, FAILED):
        message = "Both success and failed conditions cannot be true at the same time"
        errors.append(refused("status.conditions", message))
    for kind, name in ((SUCCEEDED, "Success"), (FAILED, "Failed")):
        if has_condition(old, kind) and not has_condition(new, kind):
            message = f"{name} condition cannot be set to false once it is true"
            errors.append(refused("status.conditions", message))
    return errors


STRATEGIES: dict[str, Strategy] = {
    "storageversionmigrations": Strategy(
        validate=validate_migration,
        validate_update=lambda new, old: unchanged(new, old, "", "spec"),
        validate_status=validate_status,
        status_leaves=CLIENT_METADATA,
        has_status=True,
        unconditional_update=False,
    ),
}
