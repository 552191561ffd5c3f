"""Comparing two versions of an object, field by field."""

import copy
from typing import Any

import pytest

from alcove.api.patch.apply import shape
from alcove.api.patch.apply.compare import compare
from alcove.api.schema.node import SchemaNode


@pytest.mark.parametrize(
    ("old", "new", "changed", "removed"),
    [
        ({"text": "a"}, {"text": "a"}, {}, {}),
        ({"text": "a"}, {"text": "b"}, {"f:text": {}}, {}),
        ({}, {"text": "b"}, {"f:text": {}}, {}),
        ({"text": "a"}, {}, {}, {"f:text": {}}),
        ({"number": 1}, {"number": 1.0}, {}, {}),
        ({"text": "a"}, {"text": None}, {"f:text": {}}, {}),
        # Maps and objects: only what differs in them.
        (
            {"free": {"a": "1", "b": "2"}},
            {"free": {"b": "3", "c": "4"}},
            {"f:free": {"f:b": {}, "f:c": {}}},
            {"f:free": {"f:a": {}}},
        ),
        ({"pair": {"deep": {"c": "1"}}}, {"pair": {"deep": {}}}, {}, {"f:pair": {"f:deep": {"f:c": {}}}}),
        ({}, {"pair": {"a": "1"}}, {"f:pair": {".": {}, "f:a": {}}}, {}),
        ({"pair": {"a": "1"}}, {}, {}, {"f:pair": {".": {}, "f:a": {}}}),
        # An empty one that is filled was there already; two different empty ones differ as a whole.
        ({"pair": {}}, {"pair": {"a": "1"}}, {"f:pair": {"f:a": {}}}, {}),
        ({"pair": None}, {"pair": {"a": "1"}}, {"f:pair": {"f:a": {}}}, {}),
        ({"pair": {"a": "1"}}, {"pair": None}, {}, {"f:pair": {"f:a": {}}}),
        ({"pair": {}}, {"pair": None}, {"f:pair": {}}, {}),
        ({"set": []}, {"set": None}, {"f:set": {}}, {}),
        ({"set": None}, {"set": ["a"]}, {"f:set": {'v:"a"': {}}}, {}),
        # Atomic: any difference is one.
        ({"atomicMap": {"a": "1"}}, {"atomicMap": {"b": "1"}}, {"f:atomicMap": {}}, {}),
        ({"atomicList": ["a", "b"]}, {"atomicList": ["b", "a"]}, {"f:atomicList": {}}, {}),
        # Sets and keyed lists: order does not count.
        ({"set": ["a", "b"]}, {"set": ["b", "a"]}, {}, {}),
        ({"set": ["a"]}, {"set": ["b"]}, {"f:set": {'v:"b"': {}}}, {"f:set": {'v:"a"': {}}}),
        (
            {"items": [{"name": "a", "value": "1"}, {"name": "b"}]},
            {"items": [{"name": "c"}, {"name": "a", "value": "2"}]},
            {"f:items": {'k:{"name":"a"}': {"f:value": {}}, 'k:{"name":"c"}': {".": {}, "f:name": {}}}},
            {"f:items": {'k:{"name":"b"}': {".": {}, "f:name": {}}}},
        ),
        (
            {"items": [{"name": "a", "ports": [{"port": 1}]}]},
            {"items": [{"name": "a", "ports": [{"port": 1, "protocol": "TCP"}]}]},
            {
                "f:items": {
                    'k:{"name":"a"}': {"f:ports": {'k:{"port":1,"protocol":"TCP"}': {"f:protocol": {}}}}
                }
            },
            {},
        ),
        # Duplicates are compared as one value.
        ({"set": ["a", "a"]}, {"set": ["a", "a"]}, {}, {}),
        ({"set": ["a", "a"]}, {"set": ["a", "a", "a"]}, {"f:set": {'v:"a"': {}}}, {}),
        (
            {"items": [{"name": "a"}]},
            {"items": [{"name": "a"}, {"name": "a"}]},
            {"f:items": {'k:{"name":"a"}': {}}},
            {"f:items": {'k:{"name":"a"}': {".": {}, "f:name": {}}}},
        ),
        (
            {"items": [{"name": "a"}, {"name": "a"}]},
            {"items": [{"name": "a"}]},
            {"f:items": {'k:{"name":"a"}': {".": {}, "f:name": {}}}},
            {},
        ),
        # Without a schema the type may change too.
        ({"any": 1}, {"any": {"a": 1}}, {"f:any": {".": {}, "f:a": {}}}, {}),
        ({"any": {"a": 1}}, {"any": "x"}, {"f:any": {}}, {"f:any": {"f:a": {}}}),
        ({"any": {"l": [1]}}, {"any": {"l": [2]}}, {"f:any": {"f:l": {}}}, {}),
        # What nobody owns does not count.
        (
            {"metadata": {"name": "a"}, "kind": "A"},
            {"metadata": {"name": "b", "uid": "u"}, "kind": "B"},
            {},
            {},
        ),
        (
            {"metadata": {"uid": "u", "labels": {"a": "1"}}},
            {"metadata": {}},
            {},
            {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}},
        ),
    ],
)
def test_compare(sample: SchemaNode, old: Any, new: Any, changed: Any, removed: Any) -> None:
    before = copy.deepcopy((old, new))
    found = compare(old, new, shape.root(sample))
    assert (found.changed, found.removed) == (changed, removed)
    assert (old, new) == before
