"""Owned fields after a schema change: a value that has become atomic is owned as a whole."""

from alcove.api.patch.apply.fieldset import LEAF, WHOLE, Trie
from alcove.api.patch.apply.shape import ItemList, Struct, ValueShape


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
