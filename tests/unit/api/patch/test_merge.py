"""JSON merge patch: RFC 7386's own table, and its laws."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.errors import BadRequest
from alcove.api.patch import merge as merge_patch

values = st.recursive(
    st.booleans() | st.integers(-99, 99) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3)
    ),
    max_leaves=10,
)
documents = st.dictionaries(st.text("abc", max_size=2), values, max_size=4)


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({}, {"a": [None, {"b": None}]}, {"a": [None, {"b": None}]}),
        ({"a": 1}, {"a": {"b": None}}, {"a": {}}),
        ({"a": 1}, {}, {"a": 1}),
    ],
)
def test_merging(document: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy(document)
    assert merge_patch.apply(document, patch) == expected
    assert document == before


@pytest.mark.parametrize("patch", [None, [], "x", 1, [{"a": 1}]])
def test_only_an_object_is_a_patch(patch: Any) -> None:
    with pytest.raises(BadRequest, match="a merge patch must be an object"):
        merge_patch.apply({"a": 1}, patch)


def test_deep_nesting_is_refused_not_a_crash() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(BadRequest, match="nested too deeply"):
        merge_patch.apply({}, deep)


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        if type(value) is dict and type(old.get(name)) is dict:
            patch[name] = difference(old[name], value)
        elif name not in old or old[name] != value or type(old[name]) is not type(value):
            patch[name] = value
    return patch


@given(documents, documents)
def test_the_difference_of_two_documents_turns_one_into_the_other(old: Any, new: Any) -> None:
    assert merge_patch.apply(old, difference(old, new)) == new


@given(documents, documents)
def test_merging_twice_is_merging_once(document: Any, patch: Any) -> None:
    once = merge_patch.apply(document, patch)
    assert merge_patch.apply(once, patch) == once


@given(documents, documents)
def test_result_and_patch_share_nothing(document: Any, patch: Any) -> None:
    before = copy.deepcopy(patch)
    merged = merge_patch.apply(document, patch)
    for value in merged.values():
        if type(value) in (dict, list):
            value.clear()
    assert patch == before
