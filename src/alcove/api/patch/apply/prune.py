"""Removes what an applier applied before and no longer does, unless somebody else owns it."""

from typing import Any

from alcove.api.objects import Object
from alcove.api.patch.apply.elements import MEMBER
from alcove.api.patch.apply.fieldset import LEAF, Trie, difference, intersection, is_member, union
from alcove.api.patch.apply.managed import Managed, ManagedFieldsEntry
from alcove.api.patch.apply.shape import ItemList, Struct, ValueShape
from alcove.api.patch.apply.versions import ObjectVersions

_NOTHING = object()


def prune(obj: Object, last: ManagedFieldsEntry, owned: Managed, versions: ObjectVersions) -> Object:
    """`obj`, a merged object, without those fields of `last` that nobody owns; `obj` stays as it is.

    `last` is what the applier owned before, `owned` what everybody, it included, owns from now on. An
    object or list that loses everything in it stays, empty, if it is itself owned; else it goes too.
    """
    seen = versions.at(obj, last.api_version)
    if seen is None:
        return obj
    at_last, shape = seen
    applied = with_parents(last.trie, shape)
    # What is left when all of it goes, and what others own comes back, version by version …
    left = remove(at_last, applied, shape)
    by_version = _by_version(owned, last, versions)
    for api_version, trie in by_version.items():
        left = _restored(obj, left, api_version, trie, versions)
    # … and of what is then missing, only what this applier applied: things without an owner stay.
    rest = versions.at(left, last.api_version)
    assert rest is not None
    missing = difference(_everything(at_last, shape), _everything(rest[0], shape))
    owned_here = with_parents(by_version[versions.distinct(last.api_version)], shape)
    pruned = remove(at_last, intersection(missing, applied), shape, owned_here)
    back = versions.at(pruned, versions.api_version)
    assert back is not None, "the request's version is not served"
    return back[0]


def _by_version(owned: Managed, last: ManagedFieldsEntry, versions: ObjectVersions) -> dict[str, Trie]:
    """All that is owned, by version; that of `last` comes first, so that the others find a whole object."""
    by_version: dict[str, Trie] = {versions.distinct(last.api_version): {}}
    for entry in owned.values():
        api_version = versions.distinct(entry.api_version)
        by_version[api_version] = union(by_version.get(api_version, {}), entry.trie)
    return by_version


def _restored(obj: Object, left: Object, api_version: str, owned: Trie, versions: ObjectVersions) -> Object:
    """`obj` without what is neither in `left` nor owned at a version."""
    whole, rest = versions.at(obj, api_version), versions.at(left, api_version)
    if whole is None or rest is None:
        return left
    shape = whole[1]
    kept = union(_everything(rest[0], shape), with_parents(owned, shape))
    restored: Object = remove(whole[0], difference(_everything(whole[0], shape), kept), shape)
    return restored


def _everything(obj: Object, shape: Struct) -> Trie:
    return with_parents(shape.applied(obj) or {}, shape)


def with_parents(trie: Trie, shape: ValueShape) -> Trie:
    """The set, and every declared field that leads to a member of it."""
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


def remove(value: Any, gone: Trie, shape: ValueShape, owned: Trie | None = None) -> Any:
    """`value` without the members of `gone`, as a new value where anything is removed.

    Objects and lists that become empty: null, as a marker that they were there. With `owned`, they are left
    empty where it has them and dropped where it does not.
    """
    if not gone or not value:
        return value
    if isinstance(shape, Struct) and type(value) is dict:
        return _remove_fields(value, gone, shape, owned)
    if isinstance(shape, ItemList) and type(value) is list:
        return _remove_items(value, gone, shape, owned)
    return value


def _remove_fields(value: Object, gone: Trie, shape: Struct, owned: Trie | None) -> Any:
    left: Object = {}
    for name, part in value.items():
        element, part_shape = shape.field(name)
        kept = _kept(part, gone.get(element), part_shape, owned, element)
        if kept is not _NOTHING:
            left[name] = kept
    return left or (None if owned is None else {})


def _remove_items(value: list[Any], gone: Trie, shape: ItemList, owned: Trie | None) -> Any:
    left: list[Any] = []
    for item in value:
        element = shape.element(item)
        kept = _kept(item, gone.get(element), shape.item, owned, element)
        if kept is not _NOTHING:
            left.append(kept)
    return left or (None if owned is None else [])


def _kept(part: Any, gone: Trie | None, shape: ValueShape, owned: Trie | None, element: str) -> Any:
    if gone is None:
        return part
    if is_member(gone):
        return _NOTHING
    owned_here = None if owned is None else owned.get(element)
    kept = remove(part, gone, shape, None if owned is None else owned_here or {})
    if owned is not None and part and not kept and (owned_here is None or not is_member(owned_here)):
        return _NOTHING
    return kept
