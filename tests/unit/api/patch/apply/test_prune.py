"""Removing parts of an object by their paths."""

import copy
from typing import Any

import pytest

from alcove.api.patch.apply import shape
from alcove.api.patch.apply.prune import remove, with_parents
from alcove.api.schema.node import SchemaNode

ITEMS = {"items": [{"name": "a", "tags": ["x", "y"]}, {"name": "b"}]}


@pytest.mark.parametrize(
    ("obj", "gone", "expected"),
    [
        ({"text": "a", "number": 1}, {"f:text": {}}, {"number": 1}),
        ({"text": "a"}, {"f:absent": {}}, {"text": "a"}),
        ({"free": {"a": "1", "b": "2"}}, {"f:free": {"f:a": {}}}, {"free": {"b": "2"}}),
        ({"free": {"a": "1"}, "text": "x"}, {"f:free": {}}, {"text": "x"}),
        ({"atomicMap": {"a": "1"}, "text": "x"}, {"f:atomicMap": {}}, {"text": "x"}),
        ({"atomicMap": {"a": "1"}}, {"f:atomicMap": {"f:a": {}}}, {"atomicMap": {"a": "1"}}),
        ({"set": ["a", "b"]}, {"f:set": {'v:"a"': {}}}, {"set": ["b"]}),
        (ITEMS, {"f:items": {'k:{"name":"b"}': {}}}, {"items": [{"name": "a", "tags": ["x", "y"]}]}),
        (
            ITEMS,
            {"f:items": {'k:{"name":"a"}': {"f:tags": {'v:"x"': {}}}}},
            {"items": [{"name": "a", "tags": ["y"]}, {"name": "b"}]},
        ),
        (ITEMS, {"f:items": {'k:{"name":"a"}': {"f:tags": {}}}}, {"items": [{"name": "a"}, {"name": "b"}]}),
    ],
)
def test_remove(sample: SchemaNode, obj: Any, gone: Any, expected: Any) -> None:
    before = copy.deepcopy(obj)
    assert remove(obj, gone, shape.root(sample)) == expected
    assert obj == before


@pytest.mark.parametrize(
    ("owned", "expected"),
    [
        (None, {"text": "x", "pair": None}),
        ({}, {"text": "x"}),
        ({"f:pair": {}}, {"text": "x", "pair": {}}),
        ({"f:pair": {".": {}, "f:b": {}}}, {"text": "x", "pair": {}}),
        ({"f:pair": {"f:b": {}}}, {"text": "x"}),
    ],
)
def test_what_becomes_empty_stays_if_it_is_owned(sample: SchemaNode, owned: Any, expected: Any) -> None:
    obj = {"text": "x", "pair": {"a": "1"}}
    assert remove(obj, {"f:pair": {"f:a": {}}}, shape.root(sample), owned) == expected


def test_an_emptied_list_likewise(sample: SchemaNode) -> None:
    obj = {"set": ["a"], "items": [{"name": "a"}]}
    gone = {"f:set": {'v:"a"': {}}, "f:items": {'k:{"name":"a"}': {"f:name": {}}}}
    assert remove(obj, gone, shape.root(sample)) == {"set": None, "items": [None]}
    assert remove(obj, gone, shape.root(sample), {"f:set": {}}) == {"set": []}


def test_parents_are_declared_fields_only(sample: SchemaNode) -> None:
    trie = {
        "f:pair": {"f:deep": {"f:c": {}}},
        "f:pairs": {"f:k": {"f:deep": {"f:c": {}}}},
        "f:items": {'k:{"name":"a"}': {"f:tags": {'v:"x"': {}}}},
        "f:any": {"f:x": {"f:y": {}}},
    }
    assert with_parents(trie, shape.root(sample)) == {
        "f:pair": {".": {}, "f:deep": {".": {}, "f:c": {}}},
        "f:pairs": {".": {}, "f:k": {"f:deep": {".": {}, "f:c": {}}}},
        "f:items": {".": {}, 'k:{"name":"a"}': {"f:tags": {".": {}, 'v:"x"': {}}}},
        "f:any": {".": {}, "f:x": {"f:y": {}}},
    }
