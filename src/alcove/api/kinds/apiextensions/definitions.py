"""Definitions of custom resources: names, versions, what is stored, what may not change.

What a schema may say is `api/schema`'s part. Fields that all versions set alike are told without
their version (`spec.subresources…`), as Kubernetes does.
"""

from alcove.api import names
from alcove.api.fields import FieldError, invalid, required
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.kinds.apiextensions.approval import approval_faults, changed_approval_faults
from alcove.api.kinds.apiextensions.conversion import (
    ca_bundle_faults,
    default_conversion,
    validate_conversion,
)
from alcove.api.kinds.apiextensions.versions import validate_versions
from alcove.api.kinds.checks import child, fill, one_of_required, unchanged
from alcove.api.objects import Object, name


def default_definition(crd: Object) -> None:
    spec = child(crd, "spec")
    given = child(spec, "names")
    kind = given.get("kind", "")
    if kind:
        fill(given, "singular", kind.lower())
        fill(given, "listKind", f"{kind}List")
    default_conversion(spec)


def _storage_version(crd: Object) -> str:
    versions = (crd.get("spec") or {}).get("versions") or ()
    return next((version.get("name", "") for version in versions if version.get("storage")), "")


def prepare_create(crd: Object) -> None:
    storage = _storage_version(crd)
    crd["status"] = {"storedVersions": [storage] if storage else []}


def prepare_update(new: Object, _old: Object) -> None:
    """Notes a storage version that objects will be stored in from now on. Status was carried over."""
    storage, status = _storage_version(new), new.get("status") or {}
    stored = status.get("storedVersions") or []
    if storage and storage not in stored:
        new["status"] = {**status, "storedVersions": [*stored, storage]}


def validate_definition(crd: Object) -> list[FieldError]:
    spec = crd.get("spec") or {}
    given = spec.get("names") or {}
    faults: list[FieldError] = []
    if name(crd) != f"{given.get('plural', '')}.{spec.get('group', '')}":
        message = 'must be spec.names.plural+"."+spec.group'
        faults.append(invalid("metadata.name", name(crd), message))
    faults += _group(spec.get("group", ""))
    faults += one_of_required(spec.get("scope", ""), ("Cluster", "Namespaced"), "spec.scope")
    faults += validate_versions(spec)
    faults += [
        required(f"spec.names.{field}")
        for field in ("plural", "singular", "kind", "listKind")
        if not given.get(field)
    ]
    faults += validate_names(given, "spec.names")
    faults += validate_conversion(spec)
    if spec.get("preserveUnknownFields"):
        message = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        faults.append(invalid("spec.preserveUnknownFields", True, message))
    return faults


def _group(group: str) -> list[FieldError]:
    if not group:
        return [required("spec.group")]
    if wrong := names.dns_subdomain(group):
        return [invalid("spec.group", group, ",".join(wrong))]
    if "." not in group:
        return [invalid("spec.group", group, "should be a domain with at least one dot")]
    return []


def validate_names(given: Object, path: str) -> list[FieldError]:
    """Names that a definition asks for, or that it was given; none of them need be there."""
    faults: list[FieldError] = []
    for field in ("plural", "singular"):
        if given.get(field) and (wrong := names.dns_1035_label(given[field])):
            faults.append(invalid(f"{path}.{field}", given[field], ",".join(wrong)))
    for field in ("kind", "listKind"):
        if given.get(field) and (wrong := names.dns_1035_label(given[field].lower())):
            message = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
            faults.append(invalid(f"{path}.{field}", given[field], message))
    if given.get("kind") and given["kind"] == given.get("listKind"):
        message = "kind and listKind may not be the same"
        faults.append(invalid(f"{path}.listKind", given["listKind"], message))
    for field in ("shortNames", "categories"):
        for index, text in enumerate(given.get(field) or ()):
            if wrong := names.dns_1035_label(text):
                faults.append(invalid(f"{path}.{field}[{index}]", text, ",".join(wrong)))
    return faults


def is_established(crd: Object) -> bool:
    found = (crd.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Established" and each.get("status") == "True" for each in found)


def validate_definition_update(new: Object, old: Object) -> list[FieldError]:
    now, before = new.get("spec") or {}, old.get("spec") or {}
    own, known = now.get("names") or {}, before.get("names") or {}
    faults: list[FieldError] = []
    if is_established(old):
        faults += unchanged(now, before, "spec", "scope") + unchanged(own, known, "spec.names", "kind")
        faults += ca_bundle_faults(now, before)
    faults += unchanged(now, before, "spec", "group") + unchanged(own, known, "spec.names", "plural")
    return faults + _stored_versions(new, old) + changed_approval_faults(new, old)


def _stored_versions(new: Object, old: Object) -> list[FieldError]:
    """A version that objects may still be stored in has to stay."""
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
        validate_create=approval_faults,
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
