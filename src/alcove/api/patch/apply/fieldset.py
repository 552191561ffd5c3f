"""Sets of fields, held as the FieldsV1 trie they are stored as.

A trie maps path elements to tries. `{}` below an element: the path up to it is a member, nothing below
it is. `".": {}` beside other elements: so is the path itself. At the root, `{}` is the empty set.
Tries are never changed once built: they are shared between objects, and their leaves are one dict.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from alcove.api.patch.apply import elements
from alcove.api.patch.apply.elements import MEMBER

Trie = dict[str, Any]
Path = tuple[str, ...]

LEAF: Trie = {}
"""Every member without members below it: shared, so that a set costs its inner nodes only."""
WHOLE: Trie = {}
"""A leaf, told apart by identity: taking it away takes everything below it too (an atomic value, whose
fields somebody may own from when it was none)."""


class FieldSet:
    """An immutable set of field paths. The functions below do the same on bare tries."""

    __slots__ = ("trie",)

    def __init__(self, trie: Trie | None = None) -> None:
        self.trie: Trie = trie or {}

    @classmethod
    def of(cls, *paths: tuple[str, ...]) -> FieldSet:
        """The set of these paths, given by field names: `of(("status",), ("metadata", "labels"))`."""
        trie: Trie = {}
        for path in paths:
            trie = union(trie, _single([elements.field(name) for name in path]))
        return cls(trie)

    @classmethod
    def from_json(cls, fields: Any) -> FieldSet:
        """Reads `fieldsV1` as anybody may have written it. Raises ValueError."""
        return cls(parse(fields))

    def to_json(self) -> Trie:
        """The set as `fieldsV1`, in Kubernetes' order; to be read only."""
        return canonical(self.trie)

    def __or__(self, other: FieldSet) -> FieldSet:
        return FieldSet(union(self.trie, other.trie))

    def __and__(self, other: FieldSet) -> FieldSet:
        return FieldSet(intersection(self.trie, other.trie))

    def __sub__(self, other: FieldSet) -> FieldSet:
        return FieldSet(difference(self.trie, other.trie))

    def exclude(self, other: FieldSet) -> FieldSet:
        """Without the members of `other` and everything below them."""
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
    """Every member; those of a level come before what is below them."""
    inner = {element: node for element, node in trie.items() if element != MEMBER}
    for element, node in inner.items():
        if is_member(node):
            yield (*prefix, element)
    for element, node in inner.items():
        yield from paths(node, (*prefix, element))


# Below the root, OWN is treated like any other element: that makes each of these one short walk.


def union(left: Trie, right: Trie) -> Trie:
    """Members of either. `left` must be in canonical order, then the result is too."""
    if not left:
        return canonical(right)
    joined, has_new = dict(left), False
    for element, node in right.items():
        there = left.get(element)
        if there is None:
            joined[element] = canonical(node)
            has_new = True
        elif there is not node:
            joined[element] = _join(there, node)
    return _ordered(joined) if has_new else joined


def _join(left: Trie, right: Trie) -> Trie:
    if not left and not right:
        return LEAF
    return union(left or {MEMBER: LEAF}, right or {MEMBER: LEAF})


def intersection(left: Trie, right: Trie) -> Trie:
    """Members of both."""
    common: Trie = {}
    for element, node in left.items():
        there = right.get(element)
        if there is not None:
            if not node or not there:
                if is_member(node) and is_member(there):
                    common[element] = LEAF
            elif both := intersection(node, there):
                common[element] = _tidy(both)
    return common


def difference(left: Trie, right: Trie) -> Trie:
    """Members of `left` that are not in `right`; `left` itself where nothing is taken away."""
    rest: Trie | None = None
    for element, node in right.items():
        there = left.get(element)
        if there is None:
            continue
        left_over = _subtract(there, node)
        if left_over is there:
            continue
        if rest is None:
            rest = dict(left)
        if left_over is None:
            del rest[element]
        else:
            rest[element] = left_over
    return left if rest is None else rest


def _subtract(left: Trie, right: Trie) -> Trie | None:
    """What remains of a node; None: nothing."""
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
    """`left` without the members of `right` and everything below them."""
    rest: Trie | None = None
    for element, node in right.items():
        there = left.get(element)
        if there is None or (not is_member(node) and not there):
            continue
        left_over = None if is_member(node) else exclude(there, node)
        if left_over is there:
            continue
        if rest is None:
            rest = dict(left)
        if left_over:
            rest[element] = _tidy(left_over)
        else:
            del rest[element]
    return left if rest is None else rest


def canonical(trie: Trie) -> Trie:
    """The same set, in Kubernetes' order, with shared leaves."""
    if not trie:
        return LEAF
    return _ordered({element: canonical(node) for element, node in trie.items()})


def _ordered(trie: Trie) -> Trie:
    if len(trie) < 2:
        return trie
    last = max(trie)
    # Fields sort as text, with OWN before them; anything after "f:" in the alphabet needs a closer look.
    names = sorted(trie) if last < "g" else sorted(trie, key=elements.order)
    return {element: trie[element] for element in names}


def parse(fields: Any) -> Trie:
    """A set from `fieldsV1` that is not known to be canonical. Raises ValueError."""
    trie = _parse(fields)
    # Nobody owns the object as a whole.
    return {element: node for element, node in trie.items() if element != MEMBER} if MEMBER in trie else trie


def _parse(fields: Any) -> Trie:
    if type(fields) is not dict:
        raise ValueError("fieldsV1 must be an object")
    parsed: Trie = {}
    for text, node in fields.items():
        if text == MEMBER:
            parsed[MEMBER] = LEAF
        elif (element := elements.parse(text)) is not None:
            there = parsed.get(element)
            below = _parse(node)
            parsed[element] = below if there is None else _join(there, below)
    return _ordered(_tidy(parsed)) if parsed else LEAF
