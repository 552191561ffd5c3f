"""Owned fields after the schema made something atomic."""

import copy
from typing import Any

import pytest

from alcove.api.patch.apply import shape
from alcove.api.patch.apply.applying import reconcile
from alcove.api.schema.node import SchemaNode


@pytest.mark.parametrize(
    ("trie", "expected"),
    [
        ({"f:atomicMap": {"f:a": {}, "f:b": {}}}, {"f:atomicMap": {}}),
        ({"f:atomicMap": {".": {}, "f:a": {}}, "f:text": {}}, {"f:atomicMap": {}, "f:text": {}}),
        ({"f:atomicList": {'k:{"name":"a"}': {".": {}, "f:x": {}}}}, {"f:atomicList": {}}),
        ({"f:unheard": {"f:a": {}}}, {"f:unheard": {"f:a": {}}}),
    ],
)
def test_what_is_atomic_now_is_owned_as_one(sample: SchemaNode, trie: Any, expected: Any) -> None:
    before = copy.deepcopy(trie)
    assert reconcile(trie, shape.root(sample)) == expected
    assert trie == before


def test_nothing_to_do_copies_nothing(sample: SchemaNode) -> None:
    trie = {
        "f:atomicMap": {},
        "f:items": {'k:{"name":"a"}': {".": {}, "f:tags": {'v:"x"': {}}}},
        "f:free": {"f:a": {}},
    }
    assert reconcile(trie, shape.root(sample)) is trie
