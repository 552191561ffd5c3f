"""Whatever a kind's schema lets in, its columns show: a row never fails."""

import random
from typing import Any

import pytest

from alcove.api import registry
from alcove.api.kind import Kind
from alcove.api.schema.decode import decode
from alcove.api.schema.node import SchemaNode, SchemaType

NOW = 1_714_557_600.0
KINDS = [kind for kind in registry.load() if "list" in kind.verbs]
OBJECTS = 60
TEXTS = (
    "",
    "a",
    "True",
    "Ready",
    "In",
    "Always",
    "Resource",
    "Pods",
    "Failed",
    "10.0.0.1",
    "LoadBalancer",
    "x" * 40,
)
KEYS = ("a", "limits.cpu", "node-role.kubernetes.io/x", "kubernetes.io/role")
SCALARS: dict[SchemaType, tuple[Any, ...]] = {
    SchemaType.STRING: TEXTS,
    SchemaType.INTEGER: (0, 1, 3600),
    SchemaType.NUMBER: (0, 1.5),
    SchemaType.BOOLEAN: (True, False),
    SchemaType.INT_OR_STRING: (0, 80, "http", ""),
    SchemaType.QUANTITY: ("1", "250m", 3),
    SchemaType.ANY: ({}, {"a": None}),
}
FORMATS = {"byte": ("", "aGk="), "date-time": ("2024-05-01T09:00:00Z", "2034-05-01T09:00:00.5+02:00")}


def sample(node: SchemaNode, dice: random.Random, depth: int) -> Any:
    """Something that may stand at a place of a schema: each field may be missing, null or empty."""
    if dice.random() < 0.1:
        return None
    if node.type in SCALARS:
        return dice.choice(FORMATS.get(node.format, SCALARS[node.type]))
    if node.type is SchemaType.LIST:
        assert node.items is not None
        return [sample(node.items, dice, depth - 1) for _ in range(dice.randrange(4))] if depth else []
    if node.type is SchemaType.MAP:
        assert node.values is not None
        return (
            {key: sample(node.values, dice, depth - 1) for key in KEYS if dice.random() < 0.5}
            if depth
            else {}
        )
    fields = [field for field in node.properties if dice.random() < 0.6] if depth else []
    return {field: sample(node.properties[field], dice, depth - 1) for field in fields}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.resource}.{kind.group}")
def test_every_column_shows_something(kind: Kind) -> None:
    for seed in range(OBJECTS):
        obj = decode(kind.schema, sample(kind.schema, random.Random(seed), 6) or {})
        for column in kind.columns:
            shown = column.value(obj, NOW)
            where = f"{column.name} of object {seed}"
            assert isinstance(shown, str | int), where
            if column.type == "integer":
                assert type(shown) is int, where
            if column.type == "boolean":
                assert type(shown) is bool, where


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.resource}.{kind.group}")
def test_columns_are_described_and_named_once(kind: Kind) -> None:
    names = [column.name for column in kind.columns]
    assert len(set(names)) == len(names)
    assert all(column.description for column in kind.columns)
    assert any(column.format == "name" for column in kind.columns)
