"""Object metadata: what Kubernetes asks of names, labels, annotations, finalizers and owners.

`validate_metadata` runs on every write, before the kind's own checks; `validate_metadata_update`
after it when an object is replaced. Pod templates and claim templates use the pieces.
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
    """What is wrong with an object's metadata, its name generated already."""
    check = name_check or names.name_is_dns_subdomain
    faults: list[FieldError] = []
    prefix, name = meta.get("generateName"), meta.get("name")
    if prefix:
        faults += [invalid(f"{path}.generateName", prefix, message) for message in check(prefix, True)]
    if not name:
        faults.append(required(f"{path}.name", "name or generateName is required"))
    else:
        faults += [invalid(f"{path}.name", name, message) for message in check(name, False)]
    _check_namespace(meta.get("namespace", ""), namespaced, path, faults)
    if meta.get("generation", 0) < 0:
        faults.append(invalid(f"{path}.generation", meta["generation"], "must be greater than or equal to 0"))
    _check_contents(meta, path, faults)
    if finalizers := meta.get("finalizers"):
        faults += validate_finalizers(finalizers, f"{path}.finalizers")
    return faults


def _check_namespace(namespace: str, namespaced: bool, path: str, faults: list[FieldError]) -> None:
    if not namespaced:
        if namespace:
            faults.append(forbidden(f"{path}.namespace", "not allowed on this type"))
    elif not namespace:
        faults.append(required(f"{path}.namespace"))
    else:
        faults += [invalid(f"{path}.namespace", namespace, message) for message in names.dns_label(namespace)]


def _check_contents(meta: Object, path: str, faults: list[FieldError]) -> None:
    if labels := meta.get("labels"):
        faults += validate_labels(labels, f"{path}.labels")
    if annotations := meta.get("annotations"):
        faults += validate_annotations(annotations, f"{path}.annotations")
    if owners := meta.get("ownerReferences"):
        faults += validate_owner_references(owners, f"{path}.ownerReferences")
    if managers := meta.get("managedFields"):
        faults += validate_managed_fields(managers, f"{path}.managedFields")


def validate_metadata_update(new: Object, old: Object, path: str = "metadata") -> list[FieldError]:
    """What may not change in metadata, and what may not be in it once it has changed.

    The server carries over what a client left out (uid, timestamps) before it asks.
    """
    faults: list[FieldError] = []
    if "deletionTimestamp" in old:
        added = sorted(set(new.get("finalizers", ())) - set(old.get("finalizers", ())))
        if added:
            shown = ", ".join(quote(name) for name in added)
            message = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{shown}}}"
            )
            faults.append(forbidden(f"{path}.finalizers", message))
    if new.get("generation", 0) < old.get("generation", 0):
        faults.append(invalid(f"{path}.generation", new.get("generation", 0), "must not be decremented"))
    for field in ("name", "namespace", "tenant", "uid"):
        immutable(new.get(field, ""), old.get(field, ""), f"{path}.{field}", faults)
    for field in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        immutable(new.get(field), old.get(field), f"{path}.{field}", faults)
    return faults


def immutable(new: Any, old: Any, field: str, faults: list[FieldError]) -> None:
    """Adds a fault if the two differ."""
    if new != old:
        faults.append(invalid(field, new, IMMUTABLE))


def validate_labels(labels: Mapping[str, str], path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    for key, value in labels.items():
        if messages := names.label_key(key):
            faults += [invalid(path, key, each) for each in messages]
        if messages := names.label_value(value):
            faults += [invalid(path, value, each) for each in messages]
    return faults


def validate_annotations(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    size = 0
    for key, value in annotations.items():
        size += len(key) + len(value)
        if messages := names.label_key(key.lower()):
            faults += [invalid(path, key, each) for each in messages]
    # Bytes are counted only where characters leave room for doubt: at most four bytes each.
    if size * 4 > ANNOTATIONS_SIZE_MAX_BYTES and _bytes(annotations) > ANNOTATIONS_SIZE_MAX_BYTES:
        faults.append(too_long(path, ANNOTATIONS_SIZE_MAX_BYTES))
    return faults


def _bytes(annotations: Mapping[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())


def validate_finalizers(finalizers: Sequence[str], path: str) -> list[FieldError]:
    faults = [
        invalid(path, finalizer, message)
        for finalizer in finalizers
        for message in names.qualified_name(finalizer)
    ]
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        message = f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"
        faults.append(invalid(path, finalizers, message))
    return faults


def validate_owner_references(owners: Sequence[Object], path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    controller = ""
    for index, owner in enumerate(owners):
        _check_owner(owner, f"{path}[{index}]", faults)
        if not owner.get("controller"):
            continue
        this = f"{owner.get('kind', '')}/{owner.get('name', '')}"
        if controller:
            message = (
                "Only one reference can have Controller set to true. "
                f'Found "true" in references for {controller} and {this}'
            )
            faults.append(invalid(path, owners, message))
            break  # Each such fault shows all owners; one is enough.
        controller = this
    return faults


def _check_owner(owner: Object, path: str, faults: list[FieldError]) -> None:
    version = owner.get("apiVersion", "")
    if not version:
        faults.append(required(f"{path}.apiVersion", "must not be empty"))
    elif version.count("/") > 1 or version.endswith("/"):
        faults.append(invalid(f"{path}.apiVersion", version, "must be <group>/<version> or <version>"))
    for field in ("kind", "name", "uid"):
        if not owner.get(field):
            faults.append(required(f"{path}.{field}", "must not be empty"))
    if version == "v1" and owner.get("kind") == "Event":
        faults.append(invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))


def validate_managed_fields(managers: Sequence[Object], path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    for index, entry in enumerate(managers):
        operation, kind = entry.get("operation", ""), entry.get("fieldsType", "")
        if operation not in ("Apply", "Update"):
            message = "must be `Apply` or `Update`"
            faults.append(invalid(f"{path}[{index}].operation", operation, message))
        if kind not in ("", "FieldsV1"):
            faults.append(invalid(f"{path}[{index}].fieldsType", kind, "must be `FieldsV1`"))
        if manager := entry.get("manager"):
            faults += validate_field_manager(manager, f"{path}[{index}].manager")
        if len(entry.get("subresource", "")) > _SUBRESOURCE_LENGTH_MAX:
            faults.append(too_long(f"{path}[{index}].subresource", _SUBRESOURCE_LENGTH_MAX))
    return faults


def validate_field_manager(manager: str, path: str) -> list[FieldError]:
    """A manager's name: at most 128 bytes, all printable."""
    faults: list[FieldError] = []
    if len(manager.encode()) > _MANAGER_LENGTH_MAX:
        faults.append(too_long(path, _MANAGER_LENGTH_MAX))
    if not manager.isprintable():
        position = 0
        for character in manager:
            if not character.isprintable():
                message = f"invalid character U+{ord(character):04X} (at position {position})"
                faults.append(invalid(path, manager, message))
            position += len(character.encode())
    return faults
