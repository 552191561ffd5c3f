"""Sets of fields, held as the FieldsV1 trie they are stored as.

A trie maps path elements to tries. `{}` below an element: the path up to it is a member, nothing below it is.
`".": {}` beside other elements: the path itself is a member too. At the root, `{}` is the empty set. Tries
are immutable once built: they are shared between objects, and all leaves are the same dict.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from alcove.api.patch.apply import elements
from alcove.api.patch.apply.elements import MEMBER

Trie = dict[str, Any]
Path = tuple[str, ...]

LEAF: Trie = {}
"""Every member without members below it: shared, so that a set costs only its inner nodes."""
WHOLE: Trie = {}
"""A leaf recognised by identity: excluding it also excludes everything below it. It stands for an atomic
value, whose fields may have owners from when the value was not atomic."""


class FieldSet:
    """An immutable set of field paths. The functions below do the same on bare tries."""

    __slots__ = ("trie",)

    def __init__(self, trie: Trie | None = None) -> None:
        self.trie: Trie = trie or {}

    @classmethod
    def of(cls, *paths: tuple[str, ...]) -> FieldSet:
        """Return the set of these paths of field names: `of(("status",), ("metadata", "labels"))`."""
        trie: Trie = {}
        for path in paths:
            trie = union(trie, _single([elements.field(name) for name in path]))
        return cls(trie)

    def to_json(self) -> Trie:
        """Return the set as `fieldsV1`, in Kubernetes' order; the result must not be changed."""
        return canonical(self.trie)

    def __or__(self, other: FieldSet) -> FieldSet:
        return FieldSet(union(self.trie, other.trie))

    def __and__(self, other: FieldSet) -> FieldSet:
        return FieldSet(intersection(self.trie, other.trie))

    def __sub__(self, other: FieldSet) -> FieldSet:
        return FieldSet(difference(self.trie, other.trie))

    def exclude(self, other: FieldSet) -> FieldSet:
        """Return the set without the members of `other` and everything below them."""
        return FieldSet(exclude(self.trie, other.trie))

    def __bool__(self) -> bool:
        return bool(self.trie)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSet) and self.trie == other.trie

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Path]:
        return paths(self.trie)

    def __contains__(self, path: Path) -> bool:
        return contains(self.trie, path)

    def __repr__(self) -> str:
        return f"FieldSet({', '.join(elements.shown(path) for path in self)})"


def _single(path: list[str]) -> Trie:
    trie: Trie = LEAF
    for element in reversed(path):
        trie = {element: trie}
    return trie


def is_member(node: Trie) -> bool:
    """Whether the path that leads to this node is itself in the set."""
    return not node or MEMBER in node


def contains(trie: Trie, path: Path) -> bool:
    node: Trie | None = trie
    for element in path:
        node = node.get(element) if node is not None else None
    return bool(path) and node is not None and is_member(node)


def paths(trie: Trie, prefix: Path = ()) -> Iterator[Path]:
    """Yield every member; those of a level come before those below them."""
    inner = {element: node for element, node in trie.items() if element != MEMBER}
    for element, node in inner.items():
        if is_member(node):
            yield (*prefix, element)
    for element, node in inner.items():
        yield from paths(node, (*prefix, element))


# Below the root, MEMBER is treated like any other element, so each of these functions is one short walk.


def union(left: Trie, right: Trie) -> Trie:
    """Return the members of either set. If `left` is in canonical order, the result is too."""
    if not left:
        return canonical(right)
    joined, has_new = dict(left), False
    for element, node in right.items():
        other_node = left.get(element)
        if other_node is None:
            joined[element] = canonical(node)
            has_new = True
        elif other_node is not node:
            joined[element] = _join(other_node, node)
    return _ordered(joined) if has_new else joined


def _join(left: Trie, right: Trie) -> Trie:
    if not left and not right:
        return LEAF
    return union(left or {MEMBER: LEAF}, right or {MEMBER: LEAF})


def intersection(left: Trie, right: Trie) -> Trie:
    """Return the members of both sets."""
    common: Trie = {}
    for element, node in left.items():
        other_node = right.get(element)
        if other_node is not None:
            if not node or not other_node:
                if is_member(node) and is_member(other_node):
                    common[element] = LEAF
            elif both := intersection(node, other_node):
                common[element] = _tidy(both)
    return common


def difference(left: Trie, right: Trie) -> Trie:
    """Return the members of `left` that are not in `right`; `left` itself if nothing is removed."""
    rest: Trie | None = None
    for element, node in right.items():
        other_node = left.get(element)
        if other_node is None:
            continue
        remaining = _subtract(other_node, node)
        if remaining is other_node:
            continue
        if rest is None:
            rest = dict(left)
        if remaining is None:
            del rest[element]
        else:
            rest[element] = remaining
    return left if rest is None else rest


def _subtract(left: Trie, right: Trie) -> Trie | None:
    """Return what remains of a node; None if nothing does."""
    if right is WHOLE:
        return None
    if not left:
        return None if is_member(right) else left
    rest = difference(left, right or {MEMBER: LEAF})
    if rest is left:
        return left
    return _tidy(rest) if rest else None


def _tidy(node: Trie) -> Trie:
    return LEAF if len(node) == 1 and MEMBER in node else node


def exclude(left: Trie, right: Trie) -> Trie:
    """Return `left` without the members of `right` and everything below them."""
    rest: Trie | None = None
    for element, node in right.items():
        other_node = left.get(element)
        if other_node is None or (not is_member(node) and not other_node):
            continue
        remaining = None if is_member(node) else exclude(other_node, node)
        if remaining is other_node:
            continue
        if rest is None:
            rest = dict(left)
        if remaining:
            rest[element] = _tidy(remaining)
        else:
            del rest[element]
    return left if rest is None else rest


def canonical(trie: Trie) -> Trie:
    """Return the same set in Kubernetes' order, with shared leaves."""
    if not trie:
        return LEAF
    return _ordered({element: canonical(node) for element, node in trie.items()})


def _ordered(trie: Trie) -> Trie:
    if len(trie) < 2:
        return trie
    last = max(trie)
    # Fields sort as text, with MEMBER before them; elements that sort after "f:" need their full sort key.
    names = sorted(trie) if last < "g" else sorted(trie, key=elements.order)
    return {element: trie[element] for element in names}


def parse(fields: Any) -> Trie:
    """Parse a set from `fieldsV1` that may not be canonical. Raises ValueError."""
    trie = _parse(fields)
    # The root path, the object as a whole, has no owner.
    return {element: node for element, node in trie.items() if element != MEMBER} if MEMBER in trie else trie


def _parse(fields: Any) -> Trie:
    if type(fields) is not dict:
        raise ValueError("fieldsV1 must be an object")
    parsed: Trie = {}
    for text, node in fields.items():
        if text == MEMBER:
            parsed[MEMBER] = LEAF
        elif (element := elements.parse(text)) is not None:
            other_node = parsed.get(element)
            below = _parse(node)
            parsed[element] = below if other_node is None else _join(other_node, below)
    return _ordered(_tidy(parsed)) if parsed else LEAF
