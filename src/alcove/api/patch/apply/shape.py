"""How a schema's values divide into fields that can be owned individually.

Shapes are compiled from schema nodes on first use and cached with them. A shape computes the paths of a
value, in the two ways that server-side apply counts them:

- `added`: every path that is created with the value, including those of objects and lists. A writer owns
  these when it sets a field that was absent.
- `applied`: what an applied configuration claims: leaves, list items and the keys of free-form maps. Of an
  object with declared fields it claims only the fields.

Both run on every write and convert the object directly to the FieldsV1 dict, in canonical order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from alcove.api.errors import BadRequest
from alcove.api.objects import Object
from alcove.api.patch.apply import elements
from alcove.api.patch.apply.elements import MEMBER
from alcove.api.patch.apply.fieldset import LEAF, WHOLE, Trie
from alcove.api.schema.node import ListType, SchemaNode, SchemaType

_CONTAINERS = (SchemaType.OBJECT, SchemaType.MAP, SchemaType.LIST, SchemaType.ANY)
_ALWAYS_PRESENT = frozenset(("metadata", "spec", "status", "strategy", "updateStrategy"))
"""Fields of stock kinds that are structs, not pointers, in Go: they exist even if no client sets them."""
_SERVERS = frozenset(
    (
        "clusterName",
        "creationTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "tenant",
        "uid",
    )
)
"""Metadata without an owner: identity, and fields that the server writes."""


class ValueShape:
    """A value owned as a whole: a scalar, or (`leaf` is WHOLE) an atomic list or map."""

    __slots__ = ("leaf",)

    def __init__(self, leaf: Trie = LEAF) -> None:
        self.leaf = leaf

    def added(self, value: Any) -> Trie:
        return self.leaf

    def applied(self, value: Any) -> Trie | None:
        """Return the claimed paths; None: nothing is claimed, not even the path itself."""
        return LEAF


class ShapeField(NamedTuple):
    element: str
    shape: ValueShape
    always_exists: bool
    """The field always exists, so setting it does not add it."""


class Struct(ValueShape):
    """An object or a map: every field is owned individually."""

    __slots__ = ("_quick", "fields", "ignored", "is_open", "rest")

    def __init__(self, rest: ValueShape) -> None:
        super().__init__()
        self.fields: dict[str, ShapeField] = {}
        """Declared fields."""
        self._quick: dict[str, tuple[str, Callable[[Any], Trie] | None]] = {}
        self.rest = rest
        """The shape of fields that are not declared."""
        self.is_open = True
        """Whether undeclared fields are allowed."""
        self.ignored: frozenset[str] = frozenset()

    def declare(self, fields: dict[str, ShapeField]) -> None:
        self.fields = fields
        self._quick = {
            name: (field.element, None if field.shape is SCALAR else field.shape.added)
            for name, field in fields.items()
        }

    def field(self, name: str) -> tuple[str, ValueShape]:
        """Return the path element and the shape of one field."""
        declared_field = self.fields.get(name)
        return (
            ("f:" + name, self.rest)
            if declared_field is None
            else (declared_field.element, declared_field.shape)
        )

    def added(self, value: Any) -> Trie:
        if type(value) is not dict or not value:
            return LEAF
        trie = {MEMBER: LEAF}
        if not self.fields and self.rest is SCALAR:
            for name in sorted(value):
                trie["f:" + name] = LEAF
            return trie
        quick = self._quick
        for name in sorted(value):
            declared_field = quick.get(name)
            if declared_field is None:
                trie["f:" + name] = self.rest.added(value[name])
            else:
                element, added = declared_field
                trie[element] = LEAF if added is None else added(value[name])
        return trie

    def applied(self, value: Any) -> Trie | None:
        if type(value) is not dict or not value:
            return LEAF
        trie: Trie = {}
        for name in sorted(value.keys() - self.ignored):
            declared_field = self.fields.get(name)
            if declared_field is None:
                trie["f:" + name] = _owning(self.rest.applied(value[name]))
            elif (claimed := declared_field.shape.applied(value[name])) is not None:
                trie[declared_field.element] = claimed
        return trie or None

    def created(self, value: Object) -> Trie:
        """Like `added`, for a whole new object: fields that always exist are not counted as added."""
        trie: Trie = {}
        ignored = self.ignored
        for name in sorted([name for name in value if name not in ignored] if ignored else value):
            self.add_field(trie, name, value[name])
        return trie

    def add_field(self, trie: Trie, name: str, value: Any) -> None:
        """Add to `trie` the paths of a field that are created, or removed, together with its value."""
        declared_field = self.fields.get(name)
        if declared_field is None:
            trie["f:" + name] = self.rest.added(value)
        elif not declared_field.always_exists:
            trie[declared_field.element] = declared_field.shape.added(value)
        elif (below := _born(declared_field.shape, value)) is not None:
            trie[declared_field.element] = below


def _born(shape: ValueShape, value: Any) -> Trie | None:
    """Return the paths of a field that always exists, once it has `value`; None if there are none."""
    if isinstance(shape, Struct):
        return shape.created(value) or None if type(value) is dict else LEAF
    trie = shape.added(value)
    return {element: node for element, node in trie.items() if element != MEMBER} if trie else trie


def _owning(claimed: Trie | None) -> Trie:
    """Return what is claimed below a path together with the path itself."""
    return {MEMBER: LEAF, **claimed} if claimed else LEAF


class ItemList(ValueShape):
    """A list whose items are owned individually: a set, or a list of objects with keys."""

    __slots__ = ("item",)

    def __init__(self) -> None:
        super().__init__()
        self.item: ValueShape = SCALAR

    def names(self, item: Any) -> Any:
        """Return the JSON value that identifies this item. Raises BadRequest if it has none."""
        raise NotImplementedError

    def element(self, item: Any) -> str:
        """Return the item's path element. Raises BadRequest for an item that cannot be identified."""
        raise NotImplementedError

    def index(self, items: Any) -> dict[str, list[Any]]:
        """Return items by element, in the order of first occurrence; several items are duplicates."""
        by_element: dict[str, list[Any]] = {}
        for item in items or ():
            by_element.setdefault(self.element(item), []).append(item)
        return by_element

    def added(self, value: Any) -> Trie:
        if type(value) is not list or not value:
            return LEAF
        added = self.item.added
        trie = {MEMBER: LEAF}
        for element, item in self._ordered(value):
            # Duplicates are owned as one value.
            trie[element] = LEAF if element in trie else added(item)
        return trie

    def applied(self, value: Any) -> Trie | None:
        if type(value) is not list:
            return LEAF
        trie: Trie = {}
        for element, item in self._ordered(value):
            trie[element] = LEAF if element in trie else _owning(self.item.applied(item))
        return trie or None

    def _ordered(self, items: list[Any]) -> list[tuple[str, Any]]:
        """Return items with their elements, in canonical order."""
        if len(items) == 1:
            return [(self.element(items[0]), items[0])]
        try:
            ordered = sorted(items, key=self.names)
        except TypeError:  # The names have several types.
            ordered = sorted(items, key=lambda item: elements.order(self.element(item)))
        return [(self.element(item), item) for item in ordered]


class SetListShape(ItemList):
    """A set of scalars."""

    __slots__ = ()

    def names(self, item: Any) -> Any:
        if item is None or type(item) is dict or type(item) is list:
            raise BadRequest("the items of a set must be strings, numbers or booleans")
        return item

    def element(self, item: Any) -> str:
        return elements.value(self.names(item))


class KeyedList(ItemList):
    """A list of objects identified by the values of their key fields, or by the defaults of those fields."""

    __slots__ = ("defaults", "keys")

    def __init__(self, keys: tuple[str, ...]) -> None:
        super().__init__()
        self.keys = tuple(sorted(keys))
        self.defaults: Object = {}

    def names(self, item: Any) -> Any:
        return [*self._values(item).items()]

    def element(self, item: Any) -> str:
        return elements.key(self._values(item))

    def _values(self, item: Any) -> Object:
        if type(item) is not dict:
            raise BadRequest("the items of an associative list with keys must be objects")
        values = {}
        for key in self.keys:
            if key in item:
                values[key] = item[key]
            elif key in self.defaults:
                values[key] = self.defaults[key]
        if not values:
            message = " ".join(f'"{key}"' for key in self.keys)
            raise BadRequest(
                f"associative list with keys has an element that omits all key fields [{message}] "
                "(and doesn't have default values for any key fields)"
            )
        return values


SCALAR = ValueShape()
ATOMIC = ValueShape(WHOLE)
DEDUCED = Struct(SCALAR)
"""A value without a schema: objects divide into their fields, any other value is owned as a whole."""
DEDUCED.rest = DEDUCED


def of(node: SchemaNode) -> ValueShape:
    """Return the shape of a node's values."""
    if node.type not in _CONTAINERS:
        return SCALAR
    compiled = node.compiled
    # A node copied from one already in use carries that node's cached shape.
    if compiled is None or compiled[0] is not node:
        compiled = _compile(node)
    return compiled[1]  # type: ignore[no-any-return]


def root(node: SchemaNode) -> Struct:
    """Return the shape of whole objects of a kind, without fields that have no owner."""
    shape = of(node)
    assert isinstance(shape, Struct)
    compiled = node.compiled
    if compiled[2] is None:
        node.compiled = compiled = (node, shape, _as_root(shape))
    return compiled[2]  # type: ignore[no-any-return]


def _compile(node: SchemaNode) -> tuple[SchemaNode, ValueShape, Struct | None]:
    shape = _outline(node)
    node.compiled = compiled = (node, shape, None)  # Before its parts: they may refer to it.
    if isinstance(shape, Struct) and shape is not DEDUCED:
        _fill_struct(shape, node)
    elif isinstance(shape, ItemList) and node.items is not None:
        shape.item = of(node.items)
        if isinstance(shape, KeyedList):
            parts = {key: node.items.properties.get(key) for key in shape.keys}
            shape.defaults = {key: part.default for key, part in parts.items() if part and part.has_default}
    return compiled


def _outline(node: SchemaNode) -> ValueShape:
    if node.type is SchemaType.LIST:
        match node.list_type:
            case ListType.MAP:
                return KeyedList(node.list_map_keys)
            case ListType.SET:
                return SetListShape()
            case ListType.ATOMIC:
                return ATOMIC
    if node.atomic or node.name == "RawExtension":
        return ATOMIC
    if node.type is SchemaType.ANY or (node.type is SchemaType.MAP and node.values is None):
        return DEDUCED
    return Struct(DEDUCED)


def _fill_struct(shape: Struct, node: SchemaNode) -> None:
    if node.values is not None:
        shape.rest = of(node.values)
    shape.is_open = node.values is not None or node.preserve_unknown or not node.properties
    shape.declare(
        {
            name: ShapeField(elements.field(name), of(part), _always_exists(node, name, part))
            for name, part in node.properties.items()
        }
    )


def _always_exists(node: SchemaNode, name: str, part: SchemaNode) -> bool:
    """Whether Go's zero value of the type has this field. Schemas without a name have no Go type."""
    return bool(node.name) and part.type in _CONTAINERS and (name in _ALWAYS_PRESENT or name in node.required)


def _as_root(shape: Struct) -> Struct:
    metadata = Struct(DEDUCED)
    metadata.ignored = _SERVERS
    declared = shape.fields.get("metadata")
    if declared is not None and isinstance(declared.shape, Struct):
        metadata.rest = declared.shape.rest
        metadata.declare(declared.shape.fields)
    whole = Struct(shape.rest)
    whole.is_open = shape.is_open
    whole.ignored = frozenset(("apiVersion", "kind"))
    whole.declare({**shape.fields, "metadata": ShapeField("f:metadata", metadata, True)})
    return whole
