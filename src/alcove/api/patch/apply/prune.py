"""Removes fields that an applier applied before and now omits, unless another manager owns them."""

from typing import Any

from alcove.api.objects import Object
from alcove.api.patch.apply.elements import MEMBER
from alcove.api.patch.apply.fieldset import LEAF, Trie, difference, intersection, is_member, union
from alcove.api.patch.apply.managed import Managed, ManagedFieldsEntry
from alcove.api.patch.apply.shape import ItemList, Struct, ValueShape
from alcove.api.patch.apply.versions import ObjectVersions

_NOTHING = object()
_METADATA: Trie = {"f:metadata": LEAF}
"""They have a name, which nobody owns: they stay when the last field in them that somebody owned is removed."""


def prune(obj: Object, last: ManagedFieldsEntry, owned: Managed, versions: ObjectVersions) -> Object:
    """Return the merged object `obj` without those fields of `last` that have no owner; `obj` is unchanged.

    `last` is what the applier owned before, `owned` what all managers, including the applier, own from now
    on. An object or list that becomes empty stays if it is itself owned, and is removed otherwise.
    """
    converted = versions.at(obj, last.api_version)
    if converted is None:
        return obj
    at_last, shape = converted
    applied = with_parents(last.trie, shape)
    # First remove all of it, then restore what other managers own, version by version.
    remaining = remove(at_last, applied, shape)
    by_version = _by_version(owned, last, versions)
    for api_version, trie in by_version.items():
        remaining = _restored(obj, remaining, api_version, trie, versions)
    # Of the fields missing then, remove only those this applier applied: fields without an owner stay.
    rest = versions.at(remaining, last.api_version)
    assert rest is not None
    missing = difference(_applied_fields(at_last, shape), _applied_fields(rest[0], shape))
    owned_below = with_parents(by_version[versions.distinct(last.api_version)], shape)
    pruned = remove(at_last, intersection(missing, applied), shape, owned_below)
    back = versions.at(pruned, versions.api_version)
    assert back is not None, "the request's version is not served"
    return back[0]


def _by_version(owned: Managed, last: ManagedFieldsEntry, versions: ObjectVersions) -> dict[str, Trie]:
    """Return all owned fields by version; `last`'s version is first, so it restores into a whole object."""
    by_version: dict[str, Trie] = {versions.distinct(last.api_version): {}}
    for entry in owned.values():
        api_version = versions.distinct(entry.api_version)
        by_version[api_version] = union(by_version.get(api_version, {}), entry.trie)
    return by_version


def _restored(
    obj: Object, remaining: Object, api_version: str, owned: Trie, versions: ObjectVersions
) -> Object:
    """Return `obj` without fields that are neither in `remaining` nor owned at a version."""
    whole, rest = versions.at(obj, api_version), versions.at(remaining, api_version)
    if whole is None or rest is None:
        return remaining
    shape = whole[1]
    retained = union(_applied_fields(rest[0], shape), with_parents(owned, shape))
    restored: Object = remove(whole[0], difference(_applied_fields(whole[0], shape), retained), shape)
    return restored


def _applied_fields(obj: Object, shape: Struct) -> Trie:
    return union(with_parents(shape.applied(obj) or {}, shape), _METADATA)


def with_parents(trie: Trie, shape: ValueShape) -> Trie:
    """Return the set with every declared field that leads to a member of it."""
    if isinstance(shape, Struct):
        return {element: _with_parent(node, *_declared(element, shape)) for element, node in trie.items()}
    item = shape.item if isinstance(shape, ItemList) else shape
    return {element: with_parents(node, item) if node else LEAF for element, node in trie.items()}


def _declared(element: str, shape: Struct) -> tuple[ValueShape, bool]:
    name = element[2:]
    return shape.field(name)[1], name in shape.fields


def _with_parent(node: Trie, shape: ValueShape, is_declared: bool) -> Trie:
    if not node:
        return LEAF
    below = with_parents(node, shape)
    return {MEMBER: LEAF, **below} if is_declared and MEMBER not in below else below


def remove(value: Any, removed: Trie, shape: ValueShape, owned: Trie | None = None) -> Any:
    """Return `value` without the members of `removed`, as a new value if anything is removed.

    Objects and lists that become empty are replaced by null, as a marker. With `owned`, they stay as empty
    values if they are in `owned` and are dropped if they are not.
    """
    if not removed or not value:
        return value
    if isinstance(shape, Struct) and type(value) is dict:
        return _remove_fields(value, removed, shape, owned)
    if isinstance(shape, ItemList) and type(value) is list:
        return _remove_items(value, removed, shape, owned)
    return value


def _remove_fields(value: Object, removed: Trie, shape: Struct, owned: Trie | None) -> Any:
    remaining: Object = {}
    for name, part in value.items():
        element, part_shape = shape.field(name)
        retained = _retained(part, removed.get(element), part_shape, owned, element)
        if retained is not _NOTHING:
            remaining[name] = retained
    return remaining or (None if owned is None else {})


def _remove_items(value: list[Any], removed: Trie, shape: ItemList, owned: Trie | None) -> Any:
    remaining: list[Any] = []
    for item in value:
        element = shape.element(item)
        retained = _retained(item, removed.get(element), shape.item, owned, element)
        if retained is not _NOTHING:
            remaining.append(retained)
    return remaining or (None if owned is None else [])


def _retained(part: Any, removed: Trie | None, shape: ValueShape, owned: Trie | None, element: str) -> Any:
    if removed is None:
        return part
    if is_member(removed):
        return _NOTHING
    owned_below = None if owned is None else owned.get(element)
    retained = remove(part, removed, shape, None if owned is None else owned_below or {})
    if owned is not None and part and not retained and (owned_below is None or not is_member(owned_below)):
        return _NOTHING
    return retained
