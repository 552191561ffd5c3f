"""Field sets: the laws of sets against plain Python sets of paths, and the FieldsV1 format."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.patch.apply import elements, fieldset
from alcove.api.patch.apply.fieldset import LEAF, WHOLE, FieldSet, parse

steps = st.sampled_from(["f:a", "f:b", "f:c", 'k:{"n":2}', 'k:{"n":10}', 'v:"x"', "i:1"])
paths = st.lists(steps, min_size=1, max_size=4).map(tuple)
path_sets = st.frozensets(paths, max_size=12)


def build(members: frozenset[tuple[str, ...]]) -> FieldSet:
    built = FieldSet()
    for path in members:
        trie: dict[str, Any] = {}
        for step in reversed(path):
            trie = {step: trie}
        built |= FieldSet(trie)
    return built


@given(path_sets)
def test_a_set_has_the_paths_put_into_it(members: frozenset[tuple[str, ...]]) -> None:
    built = build(members)
    assert set(built) == members
    assert len(list(built)) == len(members)
    assert bool(built) == bool(members)
    assert all(path in built for path in members)


@given(path_sets, paths)
def test_membership(members: frozenset[tuple[str, ...]], path: tuple[str, ...]) -> None:
    assert (path in build(members)) == (path in members)
    assert () not in build(members)


@given(path_sets, path_sets)
def test_set_operations_are_those_of_sets(
    left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]]
) -> None:
    one, other = build(left), build(right)
    assert set(one | other) == left | right
    assert set(one & other) == left & right
    assert set(one - other) == left - right
    assert set(one.exclude(other)) == {
        path for path in left if not any(path[: len(gone)] == gone for gone in right)
    }


@given(path_sets, path_sets)
def test_equal_sets_have_equal_tries(
    left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]]
) -> None:
    assert (build(left) == build(right)) == (left == right)
    assert build(left) | build(right) == build(right) | build(left)
    assert (build(left) - build(right)) | (build(left) & build(right)) == build(left)


@given(path_sets)
def test_fields_v1_round_trip(members: frozenset[tuple[str, ...]]) -> None:
    built = build(members)
    again = FieldSet(parse(orjson.loads(orjson.dumps(built.to_json()))))
    assert again == built


@given(path_sets)
def test_written_in_order(members: frozenset[tuple[str, ...]]) -> None:
    def check(trie: dict[str, Any]) -> None:
        assert list(trie) == sorted(trie, key=elements.order)
        for node in trie.values():
            check(node)

    check(build(members).to_json())


@given(path_sets, path_sets)
def test_operations_leave_their_operands_alone(
    left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]]
) -> None:
    one, other = build(left), build(right)
    before = orjson.dumps([one.trie, other.trie])
    for _ in (one | other, one & other, one - other, one.exclude(other)):
        assert orjson.dumps([one.trie, other.trie]) == before
    assert LEAF == {}
    assert WHOLE == {}


def test_the_format() -> None:
    fields = {
        "f:spec": {
            "f:containers": {
                'k:{"name":"app"}': {".": {}, "f:image": {}, "f:ports": {}},
            },
        },
        "f:metadata": {"f:finalizers": {'v:"x"': {}}},
    }
    assert set(FieldSet(parse(fields))) == {
        ("f:metadata", "f:finalizers", 'v:"x"'),
        ("f:spec", "f:containers", 'k:{"name":"app"}'),
        ("f:spec", "f:containers", 'k:{"name":"app"}', "f:image"),
        ("f:spec", "f:containers", 'k:{"name":"app"}', "f:ports"),
    }


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({".": {}}, {}),
        ({".": {}, "f:a": {}}, {"f:a": {}}),
        ({"f:a": {".": {}}}, {"f:a": {}}),
        ({"f:a": {"z:unknown": {}}}, {"f:a": {}}),
        ({"f:b": {}, "f:a": {"f:y": {}, ".": {}}}, {"f:a": {".": {}, "f:y": {}}, "f:b": {}}),
        ({'k:{"a": 1}': {"f:x": {}}, 'k:{"a":1}': {"f:y": {}}}, {'k:{"a":1}': {"f:x": {}, "f:y": {}}}),
        ({'k:{"a": 1}': {}, 'k:{"a":1}': {"f:y": {}}}, {'k:{"a":1}': {".": {}, "f:y": {}}}),
    ],
)
def test_reading_what_others_wrote(fields: Any, expected: Any) -> None:
    assert orjson.dumps(FieldSet(parse(fields)).to_json()) == orjson.dumps(expected)


@pytest.mark.parametrize("fields", [None, [], "f:a", {"f:a": None}, {"f:a": 1}, {"a": {}}, {"k:{": {}}])
def test_what_is_no_set(fields: Any) -> None:
    with pytest.raises(ValueError):
        FieldSet(parse(fields))


def test_of_field_names() -> None:
    assert FieldSet.of(("status",), ("metadata", "labels")).to_json() == {
        "f:metadata": {"f:labels": {}},
        "f:status": {},
    }
    assert repr(FieldSet.of(("metadata", "labels"))) == "FieldSet(.metadata.labels)"


def test_taking_a_whole_away_takes_what_is_below_it() -> None:
    assert fieldset.difference({"f:a": {"f:x": {}}, "f:b": {}}, {"f:a": WHOLE}) == {"f:b": {}}
    assert fieldset.difference({"f:a": {"f:x": {}}}, {"f:a": LEAF}) == {"f:a": {"f:x": {}}}


def test_taking_nothing_away_copies_nothing() -> None:
    trie = build(frozenset([("f:a", "f:b"), ("f:c",)])).trie
    assert fieldset.difference(trie, {"f:x": {}, "f:a": {"f:y": {}}}) is trie
    assert fieldset.exclude(trie, {"f:x": {}, "f:c": {"f:y": {}}}) is trie
