"""Whatever a kind's schema lets in, its columns show: a row never fails."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alcove.api import registry
from alcove.api.kind import Kind
from alcove.api.schema.decode import decode
from alcove.api.schema.node import Node, Type

NOW = 1_714_557_600.0
KINDS = [kind for kind in registry.load() if "list" in kind.verbs]
TEXTS = st.sampled_from(
    ["", "a", "True", "Ready", "In", "Always", "Resource", "Failed", "10.0.0.1", "x" * 40]
)
SCALARS: dict[Type, st.SearchStrategy[Any]] = {
    Type.STRING: TEXTS,
    Type.INTEGER: st.integers(0, 2**31 - 1),
    Type.NUMBER: st.integers(0, 100),
    Type.BOOLEAN: st.booleans(),
    Type.INT_OR_STRING: st.integers(0, 100) | TEXTS,
    Type.QUANTITY: st.sampled_from(["1", "250m", "1Gi"]),
    Type.ANY: st.none() | st.just({"a": 1}),
}
FORMATS: dict[str, st.SearchStrategy[Any]] = {
    "byte": st.sampled_from(["", "aGk="]),
    "date-time": st.sampled_from(["2024-05-01T09:00:00Z", "2034-05-01T09:00:00.5+02:00"]),
}


def values(node: Node, depth: int) -> st.SearchStrategy[Any]:
    """What may stand at a place of a schema: fields may be missing, empty or null."""
    if node.type in SCALARS:
        return FORMATS.get(node.format, SCALARS[node.type]) | st.none()
    if depth == 0:
        return st.none()
    if node.type is Type.LIST:
        assert node.items is not None
        return st.lists(values(node.items, depth - 1), max_size=3)
    if node.type is Type.MAP:
        assert node.values is not None
        return st.dictionaries(
            st.sampled_from(["a", "limits.cpu", "node-role.kubernetes.io/x"]),
            values(node.values, depth - 1),
            max_size=2,
        )
    fields = {name: later(part, depth - 1) for name, part in node.properties.items()}
    return st.fixed_dictionaries({}, optional=fields) if fields else st.just({})


def later(node: Node, depth: int) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: values(node, depth))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.resource}.{kind.group}")
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_column_shows_something(kind: Kind, data: st.DataObject) -> None:
    obj = decode(kind.schema, data.draw(values(kind.schema, 5)))
    for column in kind.columns:
        shown = column.value(obj, NOW)
        assert shown is not None, column.name
        assert isinstance(shown, str | int | bool), column.name
        if column.type == "integer":
            assert type(shown) is int, column.name
        if column.type == "boolean":
            assert isinstance(shown, bool), column.name


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.resource}.{kind.group}")
def test_columns_are_described_and_named_once(kind: Kind) -> None:
    names = [column.name for column in kind.columns]
    assert len(set(names)) == len(names)
    assert all(column.description for column in kind.columns)
    assert any(column.format == "name" for column in kind.columns)
