"""Ownership after an ordinary write (POST, PUT, PATCH): the writer of a field owns it.

Runs on every write, before admission: changes by admission have no owner.
"""

from typing import Any

from alcove.api import objects
from alcove.api.errors import BadRequest
from alcove.api.objects import Object
from alcove.api.patch.apply import managed
from alcove.api.patch.apply.fieldset import FieldSet, difference, union
from alcove.api.patch.apply.managed import FieldOwner, Managed, ManagedFieldsEntry
from alcove.api.patch.apply.shape import Struct, root
from alcove.api.patch.apply.versions import Convert, ObjectVersions, VersionChanges, created
from alcove.api.schema.node import SchemaNode

NOTHING = FieldSet()


def update_managed_fields(
    live: Object | None,
    new: Object,
    *,
    node: SchemaNode,
    manager: str,
    api_version: str,
    now: str,
    subresource: str = "",
    reset: FieldSet = NOTHING,
    convert: Convert | None = None,
) -> None:
    """Set `new["metadata"]["managedFields"]`. `live` is the stored object, None on create.

    The manager owns what it changed, other managers lose what was changed or removed; a write that changes
    nothing leaves entries and their times unchanged. Entries sent in `new` are used unless they are malformed
    or written through a subresource; a reset (`[]`, `[{}]`) removes all ownership. `reset` are the fields
    that this write cannot set. Never fails: an object whose list items cannot be distinguished by their keys
    keeps the entries it had.
    """
    requested = objects.metadata(new).pop("managedFields", None)
    if live is None and requested is None and convert is None:
        _own_all(new, root(node), FieldOwner.updater(manager, api_version, subresource), now, reset)
        return
    before = objects.get(live, "metadata", "managedFields") if live is not None else None
    owned = _owned(before, requested, subresource)
    if live is not None and not owned:
        return
    changes = VersionChanges(live, new, ObjectVersions(api_version, node, convert), reset)
    try:
        after = _after(owned, changes, manager, api_version, subresource, now)
    except BadRequest:
        if before:
            new["metadata"]["managedFields"] = before
        return
    managed.write(new, managed.limit(after))


def _own_all(new: Object, shape: Struct, owner: FieldOwner, now: str, reset: FieldSet) -> None:
    """Make the creator of an object the owner of all its fields, as nearly every create does."""
    try:
        trie = created(new, shape, reset.trie)
    except BadRequest:
        return
    managed.write(new, {owner: ManagedFieldsEntry(owner.api_version, now, trie)})


def _owned(before: Any, requested: Any, subresource: str) -> Managed:
    """Return the entries that a write starts from."""
    if requested is None or subresource or requested == before:
        return managed.read(before)
    if managed.is_reset(requested):
        return {}
    try:
        return managed.parse(requested) or managed.read(before)
    except (ValueError, RecursionError):
        return managed.read(before)


def _after(
    owned: Managed, changes: VersionChanges, manager: str, api_version: str, subresource: str, now: str
) -> Managed:
    after: Managed = {}
    for owner, entry in owned.items():
        comparison = changes.at(entry.api_version)
        if comparison is not None:
            after[owner] = entry.with_trie(
                difference(difference(entry.trie, comparison.changed), comparison.removed)
            )
    written = changes.at(api_version)
    if written is not None and written.changed:
        owner = FieldOwner.updater(manager, api_version, subresource)
        had = after.get(owner)
        # On create the set is already in canonical order.
        trie = (
            written.changed
            if not owned and changes.is_creation
            else union(had.trie if had else {}, written.changed)
        )
        after[owner] = ManagedFieldsEntry(api_version, now, trie)
    return after
