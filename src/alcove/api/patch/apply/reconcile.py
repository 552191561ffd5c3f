"""Owned fields after the schema changed: what has become atomic is owned as one."""

from alcove.api.patch.apply.fieldset import LEAF, WHOLE, Trie
from alcove.api.patch.apply.shape import ItemList, Struct, ValueShape


def reconcile(trie: Trie, shape: ValueShape) -> Trie:
    """`trie` itself where nothing in it has become atomic."""
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
