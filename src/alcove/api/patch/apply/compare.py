"""What changed between two versions of an object, as fields.

Equal parts are passed over by Python's own comparison, so the work grows with the difference. To it, true
equals 1: a field without a schema that turns from one into the other does not count as changed.
"""

from typing import Any

from msgspec import Struct as Record

from alcove.api.objects import Object
from alcove.api.patch.apply.elements import MEMBER
from alcove.api.patch.apply.fieldset import LEAF, Trie
from alcove.api.patch.apply.shape import ItemList, Struct, ValueShape


class Comparison(Record):
    """`changed`: set anew or to another value; `removed`: no longer there. Not in canonical order."""

    changed: Trie
    removed: Trie


def compare(old: Object, new: Object, shape: Struct) -> Comparison:
    """Raises BadRequest for lists whose items cannot be told apart."""
    found = Comparison({}, {})
    _struct(old, new, shape, found.changed, found.removed)
    return found


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
    """One field that both have, with values that are not the same."""
    below_changed: Trie = {}
    below_removed: Trie = {}
    expected = dict if isinstance(shape, Struct) else list if isinstance(shape, ItemList) else None
    if expected is None or (not old and not new):  # Two empty values: null and {}, say.
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
    """The value, if it is of the expected sort; null counts as an empty one; None: it is neither."""
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
    """One element that both lists have. Duplicates are compared, and owned, as one value."""
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
