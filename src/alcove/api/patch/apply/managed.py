"""`metadata.managedFields`: reads, validates and writes the owners of fields.

An owner is identified by manager, operation (`Apply`, or `Update` at an API version) and subresource. Entries
that do not change are carried over as they are and not rebuilt.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from alcove.api import fields, objects
from alcove.api.fields import FieldError
from alcove.api.objects import Object
from alcove.api.patch.apply import fieldmanager, fieldset
from alcove.api.patch.apply.fieldset import Trie

APPLY = "Apply"
UPDATE = "Update"
FIELDS_V1 = "FieldsV1"
UPDATERS_MAX = 10
ANCIENT = "ancient-changes"
"""The owner of the oldest updaters' fields, when there are too many updaters."""
BEFORE_FIRST_APPLY = "before-first-apply"
SUBRESOURCE_LENGTH_MAX = 256

_STRINGS = ("manager", "operation", "apiVersion", "time", "fieldsType", "subresource")


class FieldOwner(Struct, frozen=True):
    """The identity of an entry's owner."""

    manager: str
    operation: str
    api_version: str
    """Set for an updater; empty for an applier, which is the same owner at every version."""
    subresource: str = ""

    @classmethod
    def applier(cls, manager: str, subresource: str) -> FieldOwner:
        return cls(manager, APPLY, "", subresource)

    @classmethod
    def updater(cls, manager: str, api_version: str, subresource: str) -> FieldOwner:
        return cls(manager or "unknown", UPDATE, api_version, subresource)


class ManagedFieldsEntry(Struct, frozen=True):
    """The fields of an owner. `source` is the entry this was read from, as long as it is unchanged."""

    api_version: str
    time: str | None
    trie: Trie
    source: Object | None = None

    def with_trie(self, trie: Trie) -> ManagedFieldsEntry:
        return self if trie is self.trie else structs.replace(self, trie=trie, source=None)


Managed = dict[FieldOwner, ManagedFieldsEntry]


def read(entries: Any) -> Managed:
    """Read entries that the server wrote, from a stored object."""
    managed: Managed = {}
    for entry in entries or ():
        owner = _owner(entry)
        managed[owner] = ManagedFieldsEntry(
            entry["apiVersion"], entry.get("time"), entry.get("fieldsV1") or {}, entry
        )
    return managed


def parse(entries: Any) -> Managed:
    """Parse entries that a client wrote. Raises ValueError for entries that Kubernetes does not accept."""
    if type(entries) is not list:
        raise ValueError("managedFields must be a list")
    managed: Managed = {}
    for index, entry in enumerate(entries):
        if type(entry) is not dict or any(type(entry.get(name) or "") is not str for name in _STRINGS):
            raise ValueError(f"managed fields entry {index} is malformed")
        if entry.get("operation") not in (APPLY, UPDATE):
            raise ValueError("operation must be `Apply` or `Update`")
        if not entry.get("apiVersion"):
            raise ValueError("apiVersion must not be empty")
        fields_type = entry.get("fieldsType")
        if not fields_type:
            raise ValueError(f"missing fieldsType in managed fields entry {index}")
        if fields_type != FIELDS_V1:
            raise ValueError(f'invalid fieldsType "{fields_type}" in managed fields entry {index}')
        trie = fieldset.parse(entry.get("fieldsV1") or {})
        managed[_owner(entry)] = ManagedFieldsEntry(entry["apiVersion"], entry.get("time"), trie)
    return managed


def is_reset(entries: Any) -> bool:
    """Whether a client requests to reset all ownership: an empty list, or one empty entry."""
    return type(entries) is list and (not entries or entries == [{}])


def _owner(entry: Object) -> FieldOwner:
    api_version = "" if entry["operation"] == APPLY else entry["apiVersion"]
    manager, subresource = entry.get("manager") or "", entry.get("subresource") or ""
    return FieldOwner(manager, entry["operation"], api_version, subresource)


def write(obj: Object, managed: Managed) -> None:
    """Set the object's managedFields; remove them if there are no owners."""
    written = [_written(owner, entry) for owner, entry in managed.items() if entry.trie]
    meta = objects.metadata(obj)
    if written:
        if len(written) > 1:
            written.sort(key=_order)
        meta["managedFields"] = written
    else:
        meta.pop("managedFields", None)


def _written(owner: FieldOwner, entry: ManagedFieldsEntry) -> Object:
    if entry.source is not None:
        return entry.source
    written: Object = {"manager": owner.manager} if owner.manager else {}
    written["operation"] = owner.operation
    written["apiVersion"] = entry.api_version
    if entry.time is not None:
        written["time"] = entry.time
    written["fieldsType"] = FIELDS_V1
    written["fieldsV1"] = entry.trie
    if owner.subresource:
        written["subresource"] = owner.subresource
    return written


def _order(entry: Object) -> tuple[str, ...]:
    return (
        entry["operation"],
        entry.get("time") or "",
        entry.get("manager", ""),
        entry["apiVersion"],
        entry.get("subresource", ""),
    )


def limit(managed: Managed) -> Managed:
    """Limit the updaters to UPDATERS_MAX: the oldest of a version are merged into one, named ANCIENT."""
    updaters = [owner for owner in managed if owner.operation == UPDATE]
    surplus = len(updaters) - UPDATERS_MAX
    if surplus <= 0:
        return managed
    updaters.sort(key=lambda owner: (managed[owner].time or "", structs.astuple(owner)))
    limited = dict(managed)
    first: dict[str, FieldOwner] = {}
    for owner in updaters:
        if surplus <= 0:
            break
        version = owner.api_version
        if version not in first:
            first[version] = owner
            continue
        bucket = FieldOwner(ANCIENT, UPDATE, version)
        bucket_entry = limited.get(bucket) or limited.pop(first[version])
        added = limited.pop(owner)
        limited[bucket] = ManagedFieldsEntry(
            version, added.time, fieldset.union(bucket_entry.trie, added.trie)
        )
        surplus -= 1
    return limited


def restore_times(live: Object, new: Object) -> None:
    """Restore the old times in `new` if it differs from `live` only in times, so that the write is a no-op.

    Must be called last before storing: defaults and admission may have undone what the write changed.
    """
    had, has = objects.get(live, "metadata", "managedFields"), objects.get(new, "metadata", "managedFields")
    if not had or not has or len(had) != len(has) or had == has:
        return
    if all(_timeless(left) == _timeless(right) for left, right in zip(had, has, strict=True)):
        bare_live = {**live, "metadata": {**live["metadata"], "managedFields": None}}
        if bare_live == {**new, "metadata": {**new["metadata"], "managedFields": None}}:
            new["metadata"]["managedFields"] = had


def _timeless(entry: Object) -> Object:
    return {name: value for name, value in entry.items() if name != "time"}


def validate(entries: Any, path: str = "metadata.managedFields") -> list[FieldError]:
    """Return the errors of an object's managedFields, with Kubernetes' messages."""
    errors: list[FieldError] = []
    for index, entry in enumerate(entries or ()):
        at = f"{path}[{index}]"
        operation = entry.get("operation")
        if not operation:
            errors.append(fields.required(f"{at}.operation", "must not be empty"))
        elif operation not in (APPLY, UPDATE):
            errors.append(fields.not_supported(f"{at}.operation", operation, (APPLY, UPDATE)))
        fields_type = entry.get("fieldsType")
        if fields_type and fields_type != FIELDS_V1:
            errors.append(fields.invalid(f"{at}.fieldsType", fields_type, "must be `FieldsV1`"))
        errors.extend(fieldmanager.validate(entry.get("manager", ""), f"{at}.manager"))
        if len(entry.get("subresource", "").encode()) > SUBRESOURCE_LENGTH_MAX:
            errors.append(fields.too_long(f"{at}.subresource", SUBRESOURCE_LENGTH_MAX))
    return errors
