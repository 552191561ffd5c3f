"""`metadata.managedFields`: who owns which fields, read, checked and written.

An owner is a manager by what it does (`Apply`, or `Update` at an API version) and through which
subresource. Entries that do not change are carried over as they are, never rebuilt.
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
"""Who owns what the oldest updaters owned, when there are too many."""
BEFORE_FIRST_APPLY = "before-first-apply"
SUBRESOURCE_LENGTH_MAX = 256

_STRINGS = ("manager", "operation", "apiVersion", "time", "fieldsType", "subresource")


class FieldOwner(Struct, frozen=True):
    """Who an entry belongs to."""

    manager: str
    operation: str
    api_version: str
    """Of an updater; an applier is the same one at every version: empty."""
    subresource: str = ""

    @classmethod
    def applier(cls, manager: str, subresource: str) -> FieldOwner:
        return cls(manager, APPLY, "", subresource)

    @classmethod
    def updater(cls, manager: str, api_version: str, subresource: str) -> FieldOwner:
        return cls(manager or "unknown", UPDATE, api_version, subresource)


class ManagedFieldsEntry(Struct, frozen=True):
    """What an owner owns. `source` is the entry this was read from, as long as it says the same."""

    api_version: str
    time: str | None
    trie: Trie
    source: Object | None = None

    def with_trie(self, trie: Trie) -> ManagedFieldsEntry:
        return self if trie is self.trie else structs.replace(self, trie=trie, source=None)


Managed = dict[FieldOwner, ManagedFieldsEntry]


def read(entries: Any) -> Managed:
    """Entries as the server wrote them, from a stored object."""
    managed: Managed = {}
    for entry in entries or ():
        owner = _owner(entry)
        managed[owner] = ManagedFieldsEntry(
            entry["apiVersion"], entry.get("time"), entry.get("fieldsV1") or {}, entry
        )
    return managed


def parse(entries: Any) -> Managed:
    """Entries as a client wrote them. Raises ValueError for what Kubernetes would not take."""
    if type(entries) is not list:
        raise ValueError("managedFields must be a list")
    managed: Managed = {}
    for place, entry in enumerate(entries):
        if type(entry) is not dict or any(type(entry.get(name) or "") is not str for name in _STRINGS):
            raise ValueError(f"managed fields entry {place} is malformed")
        if entry.get("operation") not in (APPLY, UPDATE):
            raise ValueError("operation must be `Apply` or `Update`")
        if not entry.get("apiVersion"):
            raise ValueError("apiVersion must not be empty")
        fields_type = entry.get("fieldsType")
        if not fields_type:
            raise ValueError(f"missing fieldsType in managed fields entry {place}")
        if fields_type != FIELDS_V1:
            raise ValueError(f'invalid fieldsType "{fields_type}" in managed fields entry {place}')
        trie = fieldset.parse(entry.get("fieldsV1") or {})
        managed[_owner(entry)] = ManagedFieldsEntry(entry["apiVersion"], entry.get("time"), trie)
    return managed


def is_reset(entries: Any) -> bool:
    """Whether a client asks to forget all owners: an empty list, or one empty entry."""
    return type(entries) is list and (not entries or entries == [{}])


def _owner(entry: Object) -> FieldOwner:
    api_version = "" if entry["operation"] == APPLY else entry["apiVersion"]
    manager, subresource = entry.get("manager") or "", entry.get("subresource") or ""
    return FieldOwner(manager, entry["operation"], api_version, subresource)


def write(obj: Object, managed: Managed) -> None:
    """Sets the object's managedFields; nobody owning anything, it has none."""
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
    """At most UPDATERS_MAX updaters: the oldest of a version become one, named ANCIENT."""
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
        kept = limited.get(bucket) or limited.pop(first[version])
        added = limited.pop(owner)
        limited[bucket] = ManagedFieldsEntry(version, added.time, fieldset.union(kept.trie, added.trie))
        surplus -= 1
    return limited


def restore_times(live: Object, new: Object) -> None:
    """Takes back new times in `new` if times are all that differs from `live`: then nothing was written.

    To be called last before storing: defaults and admission may have undone what the write changed.
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
    """What is wrong with an object's managedFields, in Kubernetes' words."""
    faults: list[FieldError] = []
    for place, entry in enumerate(entries or ()):
        at = f"{path}[{place}]"
        operation = entry.get("operation")
        if not operation:
            faults.append(fields.required(f"{at}.operation", "must not be empty"))
        elif operation not in (APPLY, UPDATE):
            faults.append(fields.not_supported(f"{at}.operation", operation, (APPLY, UPDATE)))
        fields_type = entry.get("fieldsType")
        if fields_type and fields_type != FIELDS_V1:
            faults.append(fields.invalid(f"{at}.fieldsType", fields_type, "must be `FieldsV1`"))
        faults.extend(fieldmanager.validate(entry.get("manager", ""), f"{at}.manager"))
        if len(entry.get("subresource", "").encode()) > SUBRESOURCE_LENGTH_MAX:
            faults.append(fields.too_long(f"{at}.subresource", SUBRESOURCE_LENGTH_MAX))
    return faults
