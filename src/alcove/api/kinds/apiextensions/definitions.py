"""CustomResourceDefinitions: names, versions, stored versions, immutable fields.

Schemas are checked by `api/schema`. Fields that are the same in all versions are reported without their
version (`spec.subresources…`), as in Kubernetes.
"""

from alcove.api import names
from alcove.api.fields import FieldError, invalid, required
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.kinds.apiextensions.approval import approval_errors, changed_approval_errors
from alcove.api.kinds.apiextensions.conversion import (
    ca_bundle_errors,
    default_conversion,
    validate_conversion,
)
from alcove.api.kinds.apiextensions.versions import validate_versions
from alcove.api.kinds.checks import child, fill, one_of_required, unchanged
from alcove.api.objects import Object, name


def default_definition(crd: Object) -> None:
    spec = child(crd, "spec")
    crd_names = child(spec, "names")
    kind = crd_names.get("kind", "")
    if kind:
        fill(crd_names, "singular", kind.lower())
        fill(crd_names, "listKind", f"{kind}List")
    default_conversion(spec)


def _storage_version(crd: Object) -> str:
    versions = (crd.get("spec") or {}).get("versions") or ()
    return next((version.get("name", "") for version in versions if version.get("storage")), "")


def prepare_create(crd: Object) -> None:
    storage = _storage_version(crd)
    crd["status"] = {"storedVersions": [storage] if storage else []}


def prepare_update(new: Object, _old: Object) -> None:
    """Record a new storage version in the status, which was carried over from the old object."""
    storage, status = _storage_version(new), new.get("status") or {}
    stored = status.get("storedVersions") or []
    if storage and storage not in stored:
        new["status"] = {**status, "storedVersions": [*stored, storage]}


def validate_definition(crd: Object) -> list[FieldError]:
    spec = crd.get("spec") or {}
    crd_names = spec.get("names") or {}
    errors: list[FieldError] = []
    if name(crd) != f"{crd_names.get('plural', '')}.{spec.get('group', '')}":
        message = 'must be spec.names.plural+"."+spec.group'
        errors.append(invalid("metadata.name", name(crd), message))
    errors += _group(spec.get("group", ""))
    errors += one_of_required(spec.get("scope", ""), ("Cluster", "Namespaced"), "spec.scope")
    errors += validate_versions(spec)
    errors += [
        required(f"spec.names.{field}")
        for field in ("plural", "singular", "kind", "listKind")
        if not crd_names.get(field)
    ]
    errors += validate_names(crd_names, "spec.names")
    errors += validate_conversion(spec)
    if spec.get("preserveUnknownFields"):
        message = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        errors.append(invalid("spec.preserveUnknownFields", True, message))
    return errors


def _group(group: str) -> list[FieldError]:
    if not group:
        return [required("spec.group")]
    if wrong := names.dns_subdomain(group):
        return [invalid("spec.group", group, ",".join(wrong))]
    if "." not in group:
        return [invalid("spec.group", group, "should be a domain with at least one dot")]
    return []


def validate_names(crd_names: Object, path: str) -> list[FieldError]:
    """Check names that a definition requests, or that it was assigned; all of them are optional."""
    errors: list[FieldError] = []
    for field in ("plural", "singular"):
        if crd_names.get(field) and (wrong := names.dns_1035_label(crd_names[field])):
            errors.append(invalid(f"{path}.{field}", crd_names[field], ",".join(wrong)))
    for field in ("kind", "listKind"):
        if crd_names.get(field) and (wrong := names.dns_1035_label(crd_names[field].lower())):
            message = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
            errors.append(invalid(f"{path}.{field}", crd_names[field], message))
    if crd_names.get("kind") and crd_names["kind"] == crd_names.get("listKind"):
        message = "kind and listKind may not be the same"
        errors.append(invalid(f"{path}.listKind", crd_names["listKind"], message))
    for field in ("shortNames", "categories"):
        for index, text in enumerate(crd_names.get(field) or ()):
            if wrong := names.dns_1035_label(text):
                errors.append(invalid(f"{path}.{field}[{index}]", text, ",".join(wrong)))
    return errors


def is_established(crd: Object) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Established" and each.get("status") == "True" for each in conditions)


def validate_definition_update(new: Object, old: Object) -> list[FieldError]:
    now, before = new.get("spec") or {}, old.get("spec") or {}
    new_names, old_names = now.get("names") or {}, before.get("names") or {}
    errors: list[FieldError] = []
    if is_established(old):
        errors += unchanged(now, before, "spec", "scope") + unchanged(
            new_names, old_names, "spec.names", "kind"
        )
        errors += ca_bundle_errors(now, before)
    errors += unchanged(now, before, "spec", "group") + unchanged(
        new_names, old_names, "spec.names", "plural"
    )
    return errors + _stored_versions(new, old) + changed_approval_errors(new, old)


def _stored_versions(new: Object, old: Object) -> list[FieldError]:
    """A version that objects may still be stored in cannot be removed."""
    stored = (old.get("status") or {}).get("storedVersions") or []
    served = {version.get("name") for version in (new.get("spec") or {}).get("versions") or ()}
    return [
        invalid(
            f"status.storedVersions[{index}]",
            version,
            f"missing from spec.versions; {version} was previously a storage version, and must remain in "
            f"spec.versions until a storage migration ensures no data remains persisted in {version} and "
            f"removes {version} from status.storedVersions",
        )
        for index, version in enumerate(stored)
        if version not in served
    ]


def validate_definition_status(new: Object, _old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    return validate_names(status.get("acceptedNames") or {}, "status.acceptedNames")


STRATEGIES: dict[str, Strategy] = {
    "customresourcedefinitions": Strategy(
        default=default_definition,
        validate=validate_definition,
        validate_create=approval_errors,
        validate_update=validate_definition_update,
        validate_status=validate_definition_status,
        prepare_create=prepare_create,
        prepare_update=prepare_update,
        status_leaves=CLIENT_METADATA,
        has_status=True,
        counts_generation=True,
        unconditional_update=False,
    ),
}
