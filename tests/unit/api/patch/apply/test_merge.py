"""Merging a configuration into an object."""

import copy
from typing import Any

import pytest

from alcove.api.patch.apply import shape
from alcove.api.patch.apply.merge import merge
from alcove.api.schema.node import SchemaNode


@pytest.mark.parametrize(
    ("obj", "config", "expected"),
    [
        ({"text": "a", "number": 1}, {"text": "b"}, {"text": "b", "number": 1}),
        ({"free": {"a": "1"}}, {"free": {"b": "2"}}, {"free": {"a": "1", "b": "2"}}),
        ({"atomicMap": {"a": "1"}}, {"atomicMap": {"b": "2"}}, {"atomicMap": {"b": "2"}}),
        ({"atomicList": ["a"]}, {"atomicList": ["b"]}, {"atomicList": ["b"]}),
        ({"any": {"a": 1, "l": [1]}}, {"any": {"l": [2]}}, {"any": {"a": 1, "l": [2]}}),
        ({"any": {"a": 1}}, {"any": "x"}, {"any": "x"}),
        ({"any": {"a": 1}}, {"any": {"a": True}}, {"any": {"a": True}}),
        ({"any": "x"}, {"any": {"a": 1}}, {"any": {"a": 1}}),
        # Empty and null take nothing away: what was there belongs to somebody.
        ({"pair": {"a": "1"}}, {"pair": {}}, {"pair": {"a": "1"}}),
        ({"pair": {"a": "1"}}, {"pair": None}, {"pair": {"a": "1"}}),
        ({"set": ["a"]}, {"set": []}, {"set": ["a"]}),
        ({"set": ["a"]}, {"set": None}, {"set": ["a"]}),
        ({"set": []}, {"set": None}, {"set": None}),
        ({"text": "a"}, {"text": None}, {"text": None}),
        ({"pair": None}, {"pair": {"a": "1"}}, {"pair": {"a": "1"}}),
        (
            {"items": [{"name": "a", "value": "1", "tags": ["x"]}]},
            {"items": [{"name": "a", "tags": ["y"]}]},
            {"items": [{"name": "a", "value": "1", "tags": ["x", "y"]}]},
        ),
        (
            {"items": [{"name": "a", "ports": [{"port": 1, "protocol": "TCP"}]}]},
            {"items": [{"name": "a", "ports": [{"port": 1, "label": "l"}, {"port": 1, "protocol": "UDP"}]}]},
            {
                "items": [
                    {
                        "name": "a",
                        "ports": [
                            {"port": 1, "protocol": "TCP", "label": "l"},
                            {"port": 1, "protocol": "UDP"},
                        ],
                    }
                ]
            },
        ),
        # Of duplicates none is known to be meant.
        (
            {"items": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}, {"name": "b"}]},
            {"items": [{"name": "a", "tags": ["x"]}]},
            {"items": [{"name": "a", "tags": ["x"]}, {"name": "b"}]},
        ),
    ],
)
def test_merge(sample: SchemaNode, obj: Any, config: Any, expected: Any) -> None:
    merge(obj, copy.deepcopy(config), shape.root(sample))
    assert obj == expected
    assert repr(obj) == repr(expected), "true is not 1"


@pytest.mark.parametrize(
    ("there", "given", "expected"),
    [
        ("abc", "", "abc"),
        ("", "abc", "abc"),
        ("abc", "abc", "abc"),
        ("abc", "ac", "abc"),
        ("abc", "cxa", "bcxa"),
        ("ab", "xab", "xab"),
        ("abc", "acb", "acb"),
        ("abcz", "bac", "bzac"),
        ("abc", "dbe", "adbce"),
        ("abcd", "dcba", "dcba"),
        ("xaybz", "ba", "xybza"),
    ],
)
def test_order_of_merged_lists(sample: SchemaNode, there: str, given: str, expected: str) -> None:
    """The configuration's order holds for what it names; the rest stays where it is among it."""
    obj: Any = {"set": list(there), "items": [{"name": name} for name in there]}
    config: Any = {"set": list(given), "items": [{"name": name} for name in given]}
    merge(obj, config, shape.root(sample))
    assert "".join(obj["set"]) == expected
    assert "".join(item["name"] for item in obj["items"]) == expected
