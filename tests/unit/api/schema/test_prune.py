from typing import Any

from alcove.api.schema.node import SchemaNode, SchemaType
from alcove.api.schema.prune import apply_defaults, prune


def obj(**fields: SchemaNode) -> SchemaNode:
    node = SchemaNode(SchemaType.OBJECT)
    node.properties = fields
    return node


def scalar(default: Any = None, *, nullable: bool = False) -> SchemaNode:
    node = SchemaNode(SchemaType.STRING)
    node.nullable = nullable
    if default is not None:
        node.default, node.has_default = default, True
    return node


def list_of(items: SchemaNode) -> SchemaNode:
    node = SchemaNode(SchemaType.LIST)
    node.items = items
    return node


def map_of(values: SchemaNode) -> SchemaNode:
    node = SchemaNode(SchemaType.MAP)
    node.values = values
    return node


def test_unknown_fields_go_at_every_level() -> None:
    node = obj(spec=obj(items=list_of(obj(a=scalar())), by=map_of(obj(a=scalar()))))
    value = {"x": 1, "spec": {"y": 1, "items": [{"a": "1", "z": 2}], "by": {"k": {"a": "1", "w": 1}}}}
    unknown: list[str] = []

    prune(node, value, unknown)

    assert value == {"spec": {"items": [{"a": "1"}], "by": {"k": {"a": "1"}}}}
    assert sorted(unknown) == ["spec.by.k.w", "spec.items[0].z", "spec.y", "x"]


def test_preserved_fields_stay_but_known_ones_below_are_pruned() -> None:
    node = obj(a=obj(b=scalar()))
    node.preserve_unknown = True
    value = {"free": {"x": 1}, "a": {"b": "1", "c": 1}}

    prune(node, value)

    assert value == {"free": {"x": 1}, "a": {"b": "1"}}


def test_anything_goes_where_no_type_is_given() -> None:
    value = {"a": {"x": [{"y": None}]}}
    prune(obj(a=SchemaNode(SchemaType.ANY)), value)
    assert value == {"a": {"x": [{"y": None}]}}


def test_embedded_object_keeps_what_makes_it_one() -> None:
    inner = obj(spec=obj())
    inner.embedded = True
    value = {
        "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}, "other": 1}
    }

    prune(obj(template=inner), value)

    assert value == {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}}


def test_nulls_stay_only_where_allowed_or_to_be_defaulted() -> None:
    node = obj(plain=scalar(), nullable=scalar(nullable=True), defaulted=scalar("d"), all=list_of(scalar()))
    value: dict[str, Any] = {"plain": None, "nullable": None, "defaulted": None, "all": [None]}

    prune(node, value)

    assert value == {"nullable": None, "defaulted": None, "all": [None]}


def test_values_of_another_type_are_left_alone() -> None:
    value = {"spec": "text", "items": {"a": 1}}
    prune(obj(spec=obj(a=scalar()), items=list_of(obj())), value)
    assert value == {"spec": "text", "items": {}}


def test_defaults_fill_what_is_missing_and_go_on_inside() -> None:
    inner = obj(x=scalar("1"))
    inner.default, inner.has_default = {}, True
    node = obj(a=scalar("d"), inner=inner, items=list_of(obj(y=scalar("2"))), by=map_of(obj(z=scalar("3"))))
    value: dict[str, Any] = {"items": [{}, {"y": "own"}], "by": {"k": {}}}

    apply_defaults(node, value)

    assert value == {
        "a": "d",
        "inner": {"x": "1"},
        "items": [{"y": "2"}, {"y": "own"}],
        "by": {"k": {"z": "3"}},
    }
    assert inner.default == {}, "a default is copied, not shared"


def test_null_is_defaulted_unless_nullable() -> None:
    node = obj(
        a=scalar("d"), b=scalar("d", nullable=True), c=scalar("d", nullable=True), l=list_of(scalar("i"))
    )
    value: dict[str, Any] = {"a": None, "b": None, "l": [None]}

    apply_defaults(node, value)

    assert value == {"a": "d", "b": None, "c": "d", "l": ["i"]}
