"""Validation of object metadata: names, labels, annotations, finalizers and owners.

`validate_metadata` runs on every write, before the kind's checks; `validate_metadata_update` runs after it
when an object is updated. Pod templates and claim templates use parts of both.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from alcove.api import names
from alcove.api.fields import FieldError, forbidden, invalid, quote, required, too_long
from alcove.api.objects import Object

ANNOTATIONS_SIZE_MAX_BYTES = 256 * 1024
IMMUTABLE = "field is immutable"

_ORPHAN = "orphan"
_FOREGROUND = "foregroundDeletion"
_MANAGER_LENGTH_MAX = 128
_SUBRESOURCE_LENGTH_MAX = 256


def validate_metadata(
    meta: Object, namespaced: bool, name_check: names.NameCheck | None = None, path: str = "metadata"
) -> list[FieldError]:
    """Return the errors of an object's metadata; a generated name must already be set."""
    check = name_check or names.name_is_dns_subdomain
    errors: list[FieldError] = []
    prefix, name = meta.get("generateName"), meta.get("name")
    if prefix:
        errors += [invalid(f"{path}.generateName", prefix, message) for message in check(prefix, True)]
    if not name:
        errors.append(required(f"{path}.name", "name or generateName is required"))
    else:
        errors += [invalid(f"{path}.name", name, message) for message in check(name, False)]
    _check_namespace(meta.get("namespace", ""), namespaced, path, errors)
    if meta.get("generation", 0) < 0:
        errors.append(invalid(f"{path}.generation", meta["generation"], "must be greater than or equal to 0"))
    _check_contents(meta, path, errors)
    if finalizers := meta.get("finalizers"):
        errors += validate_finalizers(finalizers, f"{path}.finalizers")
    return errors


def _check_namespace(namespace: str, namespaced: bool, path: str, errors: list[FieldError]) -> None:
    if not namespaced:
        if namespace:
            errors.append(forbidden(f"{path}.namespace", "not allowed on this type"))
    elif not namespace:
        errors.append(required(f"{path}.namespace"))
    else:
        errors += [invalid(f"{path}.namespace", namespace, message) for message in names.dns_label(namespace)]


def _check_contents(meta: Object, path: str, errors: list[FieldError]) -> None:
    if labels := meta.get("labels"):
        errors += validate_labels(labels, f"{path}.labels")
    if annotations := meta.get("annotations"):
        errors += validate_annotations(annotations, f"{path}.annotations")
    if owners := meta.get("ownerReferences"):
        errors += validate_owner_references(owners, f"{path}.ownerReferences")
    if managers := meta.get("managedFields"):
        errors += validate_managed_fields(managers, f"{path}.managedFields")


def validate_metadata_update(new: Object, old: Object, path: str = "metadata") -> list[FieldError]:
    """Return the errors of changes in metadata.

    Fields that the client omitted (uid, timestamps) must have been carried over before.
    """
    errors: list[FieldError] = []
    if "deletionTimestamp" in old:
        added = sorted(set(new.get("finalizers", ())) - set(old.get("finalizers", ())))
        if added:
            shown = ", ".join(quote(name) for name in added)
            message = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{shown}}}"
            )
            errors.append(forbidden(f"{path}.finalizers", message))
    if new.get("generation", 0) < old.get("generation", 0):
        errors.append(invalid(f"{path}.generation", new.get("generation", 0), "must not be decremented"))
    for field in ("name", "namespace", "tenant", "uid"):
        immutable(new.get(field, ""), old.get(field, ""), f"{path}.{field}", errors)
    for field in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        immutable(new.get(field), old.get(field), f"{path}.{field}", errors)
    return errors


def immutable(new: Any, old: Any, field: str, errors: list[FieldError]) -> None:
    """Append an error if the two differ."""
    if new != old:
        errors.append(invalid(field, new, IMMUTABLE))


def validate_labels(labels: Mapping[str, str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, value in labels.items():
        if messages := names.label_key(key):
            errors += [invalid(path, key, each) for each in messages]
        if messages := names.label_value(value):
            errors += [invalid(path, value, each) for each in messages]
    return errors


def validate_annotations(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    size = 0
    for key, value in annotations.items():
        size += len(key) + len(value)
        if messages := names.label_key(key.lower()):
            errors += [invalid(path, key, each) for each in messages]
    # Count bytes only if the number of characters does not decide it: each has at most four bytes.
    if size * 4 > ANNOTATIONS_SIZE_MAX_BYTES and _bytes(annotations) > ANNOTATIONS_SIZE_MAX_BYTES:
        errors.append(too_long(path, ANNOTATIONS_SIZE_MAX_BYTES))
    return errors


def _bytes(annotations: Mapping[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())


def validate_finalizers(finalizers: Sequence[str], path: str) -> list[FieldError]:
    errors = [
        invalid(path, finalizer, message)
        for finalizer in finalizers
        for message in names.qualified_name(finalizer)
    ]
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        message = f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"
        errors.append(invalid(path, finalizers, message))
    return errors


def validate_owner_references(owners: Sequence[Object], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    controller = ""
    for index, owner in enumerate(owners):
        _check_owner(owner, f"{path}[{index}]", errors)
        if not owner.get("controller"):
            continue
        this = f"{owner.get('kind', '')}/{owner.get('name', '')}"
        if controller:
            message = (
                "Only one reference can have Controller set to true. "
                f'Found "true" in references for {controller} and {this}'
            )
            errors.append(invalid(path, owners, message))
            break  # Each such error shows all owners; one is enough.
        controller = this
    return errors


def _check_owner(owner: Object, path: str, errors: list[FieldError]) -> None:
    version = owner.get("apiVersion", "")
    if not version:
        errors.append(required(f"{path}.apiVersion", "must not be empty"))
    elif version.count("/") > 1 or version.endswith("/"):
        errors.append(invalid(f"{path}.apiVersion", version, "must be <group>/<version> or <version>"))
    for field in ("kind", "name", "uid"):
        if not owner.get(field):
            errors.append(required(f"{path}.{field}", "must not be empty"))
    if version == "v1" and owner.get("kind") == "Event":
        errors.append(invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))


def validate_managed_fields(managers: Sequence[Object], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, entry in enumerate(managers):
        operation, kind = entry.get("operation", ""), entry.get("fieldsType", "")
        if operation not in ("Apply", "Update"):
            message = "must be `Apply` or `Update`"
            errors.append(invalid(f"{path}[{index}].operation", operation, message))
        if kind not in ("", "FieldsV1"):
            errors.append(invalid(f"{path}[{index}].fieldsType", kind, "must be `FieldsV1`"))
        if manager := entry.get("manager"):
            errors += validate_field_manager(manager, f"{path}[{index}].manager")
        if len(entry.get("subresource", "")) > _SUBRESOURCE_LENGTH_MAX:
            errors.append(too_long(f"{path}[{index}].subresource", _SUBRESOURCE_LENGTH_MAX))
    return errors


def validate_field_manager(manager: str, path: str) -> list[FieldError]:
    """Check a manager's name: at most 128 bytes, all printable."""
    errors: list[FieldError] = []
    if len(manager.encode()) > _MANAGER_LENGTH_MAX:
        errors.append(too_long(path, _MANAGER_LENGTH_MAX))
    if not manager.isprintable():
        position = 0
        for character in manager:
            if not character.isprintable():
                message = f"invalid character U+{ord(character):04X} (at position {position})"
                errors.append(invalid(path, manager, message))
            position += len(character.encode())
    return errors
