"""The difference between two versions of an object, as sets of fields.

Equal parts are skipped by Python's comparison, so the cost is proportional to the difference. Python
considers true equal to 1: a field without a schema that changes from one to the other does not count as
changed.
"""

from typing import Any

from msgspec import Struct as Record

from alcove.api.objects import Object
from alcove.api.patch.apply.elements import MEMBER
from alcove.api.patch.apply.fieldset import LEAF, Trie
from alcove.api.patch.apply.shape import ItemList, Struct, ValueShape


class Comparison(Record):
    """`changed`: added or set to another value; `removed`: no longer present. Not in canonical order."""

    changed: Trie
    removed: Trie


def compare(old: Object, new: Object, shape: Struct) -> Comparison:
    """Compare two versions. Raises BadRequest for lists whose items cannot be distinguished by key."""
    comparison = Comparison({}, {})
    _struct(old, new, shape, comparison.changed, comparison.removed)
    return comparison


def _struct(old: Object, new: Object, shape: Struct, changed: Trie, removed: Trie) -> None:
    ignored = shape.ignored
    for name, value in new.items():
        if name in old:
            before = old[name]
            if before is not value and before != value and name not in ignored:
                _value(before, value, *shape.field(name), changed, removed)
        elif name not in ignored:
            shape.add_field(changed, name, value)
    for name in old:
        if name not in new and name not in ignored:
            shape.add_field(removed, name, old[name])


def _value(old: Any, new: Any, element: str, shape: ValueShape, changed: Trie, removed: Trie) -> None:
    """Compare one field that both objects have, with values that differ."""
    below_changed: Trie = {}
    below_removed: Trie = {}
    expected = dict if isinstance(shape, Struct) else list if isinstance(shape, ItemList) else None
    if expected is None or (not old and not new):  # Two empty values, such as null and {}.
        changed[element] = shape.leaf
        return
    was, now = _part(old, expected), _part(new, expected)
    if isinstance(shape, Struct):
        _struct(was or {}, now or {}, shape, below_changed, below_removed)
    elif isinstance(shape, ItemList):
        _items(was or [], now or [], shape, below_changed, below_removed)
    if was is None or now is None:
        changed[element] = {MEMBER: LEAF, **below_changed} if below_changed else LEAF
    elif below_changed:
        changed[element] = below_changed
    if below_removed:
        removed[element] = below_removed


def _part(value: Any, expected: type) -> Any:
    """Return the value if it has the expected type, an empty one for null, or None for any other type."""
    return expected() if value is None else value if type(value) is expected else None


def _items(old: list[Any], new: list[Any], shape: ItemList, changed: Trie, removed: Trie) -> None:
    before, after = shape.index(old), shape.index(new)
    for element, items in after.items():
        if element not in before:
            changed[element] = shape.item.added(items[0]) if len(items) == 1 else LEAF
        elif items != before[element]:
            _item(before[element], items, element, shape, changed, removed)
    for element, items in before.items():
        if element not in after:
            removed[element] = shape.item.added(items[0]) if len(items) == 1 else LEAF


def _item(
    old: list[Any], new: list[Any], element: str, shape: ItemList, changed: Trie, removed: Trie
) -> None:
    """Compare one element that both lists have. Duplicates are compared, and owned, as one value."""
    match len(old) > 1, len(new) > 1:
        case False, False:
            _value(old[0], new[0], element, shape.item, changed, removed)
        case True, True:
            changed[element] = LEAF
        case True, False:
            changed[element] = shape.item.added(new[0])
        case _:
            changed[element] = LEAF
            removed[element] = shape.item.added(old[0])
