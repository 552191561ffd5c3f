"""Server-side apply: merges a configuration into the object; its applier owns the fields it contains."""

from collections.abc import Iterator

from alcove.api import objects
from alcove.api.errors import BadRequest, Conflict, Details, StatusCause
from alcove.api.fields import quote
from alcove.api.objects import Object
from alcove.api.patch.apply import check, elements, lastapplied, managed
from alcove.api.patch.apply.fieldset import (
    LEAF,
    WHOLE,
    FieldSet,
    Trie,
    difference,
    exclude,
    intersection,
    paths,
)
from alcove.api.patch.apply.managed import UPDATE, FieldOwner, Managed, ManagedFieldsEntry
from alcove.api.patch.apply.merge import merge
from alcove.api.patch.apply.ownership import NOTHING
from alcove.api.patch.apply.prune import prune
from alcove.api.patch.apply.shape import ItemList, Struct, ValueShape
from alcove.api.patch.apply.versions import Convert, ObjectVersions, VersionChanges
from alcove.api.patch.document import bounded, copy, type_name
from alcove.api.schema.node import SchemaNode

Conflicts = dict[FieldOwner, Trie]
"""Fields that an apply would change, by the other manager that owns them."""


@bounded
def apply_configuration(
    live: Object | None,
    config: Object,
    *,
    node: SchemaNode,
    manager: str,
    api_version: str,
    now: str,
    subresource: str = "",
    force: bool = False,
    reset: FieldSet = NOTHING,
    convert: Convert | None = None,
) -> Object:
    """Return `live` with `config` applied, as a new object with its managedFields. `live` is None on create.

    Fields that the manager applied before and omits now are removed, unless another manager owns them. Raises
    Conflict if another manager owns a field that would change; with `force`, that manager loses the field.
    Raises BadRequest for a configuration that does not match the schema, or for list items without keys.
    `reset` are the fields that this write cannot set.
    """
    _check(config, node, api_version)
    versions = ObjectVersions(api_version, node, convert)
    owner = FieldOwner.applier(manager, subresource)
    owned = _owned(live, versions, subresource, now, reset)
    previous = owned.pop(owner, None)
    claimed = exclude(versions.shape.applied(config) or {}, reset.trie)
    entry = ManagedFieldsEntry(api_version, now, claimed)

    before = _bare(live) if live is not None else {"apiVersion": api_version, "kind": config.get("kind")}
    merged = copy(before)
    merge(merged, copy(config), versions.shape)
    if previous is not None and difference(previous.trie, claimed):
        merged = prune(merged, previous, {**owned, owner: entry}, versions)

    owned, found_conflicts = _settle(owned, VersionChanges(before, merged, versions, reset))
    if found_conflicts and not force:
        if manager == lastapplied.KUBECTL:
            found_conflicts = remaining_conflicts(
                found_conflicts, lastapplied.allowed(before, node, api_version)
            )
        if found_conflicts:
            raise conflict_error(found_conflicts)
    if previous is not None and _says_the_same(previous, entry) and merged == before:
        entry = previous
    if manager == lastapplied.KUBECTL:
        lastapplied.follow(merged, config)
    managed.write(merged, {**owned, owner: entry})
    return merged


def _check(config: Object, node: SchemaNode, api_version: str) -> None:
    if type(config) is not dict:
        raise BadRequest(f"error decoding patch: a configuration must be an object, got {type_name(config)}")
    version = config.get("apiVersion")
    if version != api_version:
        raise BadRequest(
            "Incorrect version specified in apply patch. "
            f"Specified patch version: {version or ''}, expected: {api_version}"
        )
    if objects.get(config, "metadata", "managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    errors = check.errors(config, node)
    if errors:
        where = (
            f"{objects.namespace(config)}/{objects.name(config)}; {api_version}, Kind={config.get('kind')}"
        )
        message = errors[0] if len(errors) == 1 else "errors:\n  " + "\n  ".join(errors)
        raise BadRequest(f"failed to create typed patch object ({where}): {message}")


def _bare(obj: Object) -> Object:
    meta = {name: value for name, value in objects.metadata(obj).items() if name != "managedFields"}
    return {**obj, "metadata": meta}


def _owned(
    live: Object | None, versions: ObjectVersions, subresource: str, now: str, reset: FieldSet
) -> Managed:
    """Return the owners before the apply. Fields without any owner are assigned to "before-first-apply"."""
    if live is None:
        return {}
    owned = managed.read(objects.get(live, "metadata", "managedFields"))
    if not owned:
        owner = FieldOwner.updater(managed.BEFORE_FIRST_APPLY, versions.api_version, subresource)
        existing = exclude(versions.shape.created(live), reset.trie)
        owned[owner] = ManagedFieldsEntry(versions.api_version, now, existing)
    for owner, entry in owned.items():
        at_version = versions.at(live, entry.api_version)
        if at_version is not None:
            owned[owner] = entry.with_trie(reconcile(entry.trie, at_version[1]))
    return owned


def _settle(owned: Managed, changes: VersionChanges) -> tuple[Managed, Conflicts]:
    """Return what the other managers own after the change, and the conflicts: changed fields of theirs."""
    after: Managed = {}
    found_conflicts: Conflicts = {}
    for owner, entry in owned.items():
        at_version = changes.at(entry.api_version)
        if at_version is None:
            continue
        lost = intersection(entry.trie, at_version.changed)
        if lost:
            found_conflicts[owner] = lost
        after[owner] = entry.with_trie(
            difference(difference(entry.trie, at_version.changed), at_version.removed)
        )
    return after, found_conflicts


def _says_the_same(left: ManagedFieldsEntry, right: ManagedFieldsEntry) -> bool:
    return left.api_version == right.api_version and left.trie == right.trie


def remaining_conflicts(conflicts: Conflicts, allowed: Trie) -> Conflicts:
    """Return the conflicts without the fields in `allowed`."""
    remaining = {owner: difference(trie, allowed) for owner, trie in conflicts.items()}
    return {owner: trie for owner, trie in remaining.items() if trie}


def conflict_error(conflicts: Conflicts) -> Conflict:
    """Return the 409 that lists the fields to remove from the configuration, or to force."""
    ordered = sorted(conflicts.items(), key=lambda item: (item[0].manager, item[0].operation))
    causes = tuple(
        StatusCause("FieldManagerConflict", f"conflict with {_owner_text(owner)}", path)
        for owner, trie in ordered
        for path in _paths(trie)
    )
    return Conflict(_message(ordered, causes), Details(causes=causes))


def _message(ordered: list[tuple[FieldOwner, Trie]], causes: tuple[StatusCause, ...]) -> str:
    if len(causes) == 1:
        return f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    lines: list[str] = []
    for owner, trie in ordered:
        lines.append(f"conflicts with {_owner_text(owner)}:")
        lines.extend(f"- {path}" for path in _paths(trie))
    return f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)


def _paths(trie: Trie) -> Iterator[str]:
    return map(elements.shown, paths(trie))


def _owner_text(owner: FieldOwner) -> str:
    message = quote(owner.manager)
    if owner.subresource:
        message += f" with subresource {quote(owner.subresource)}"
    return f"{message} using {owner.api_version}" if owner.operation == UPDATE else message


def reconcile(trie: Trie, shape: ValueShape) -> Trie:
    """Return `trie` with fields that have become atomic owned as one; `trie` itself if there are none."""
    if shape.leaf is WHOLE:
        return LEAF
    if not isinstance(shape, Struct | ItemList):
        return trie
    changed: Trie = {}
    for element, node in trie.items():
        if node:
            part = shape.field(element[2:])[1] if isinstance(shape, Struct) else shape.item
            reconciled = reconcile(node, part)
            if reconciled is not node:
                changed[element] = reconciled
    return {**trie, **changed} if changed else trie
