"""Laws of strategic merge patch: a patch computed from two objects turns one into the other."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.errors import ApiError
from alcove.api.patch import strategic
from alcove.api.schema.definitions import Definitions, Schema

SAMPLE = Definitions(
    {
        "Sample": msgspec.convert(
            {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "plain": {"type": "object", "additionalProperties": {"type": "string"}},
                    "replaced": {"type": "array", "items": {"type": "string"}},
                    "set": {
                        "type": "array",
                        "items": {"type": "string"},
                        "x-kubernetes-patch-strategy": "merge",
                    },
                    "items": {
                        "type": "array",
                        "items": {"$ref": "#/$defs/Sample"},
                        "x-kubernetes-patch-strategy": "merge",
                        "x-kubernetes-patch-merge-key": "name",
                    },
                },
            },
            Schema,
        )
    },
    {},
).node("Sample")

letters = st.sampled_from("abcdef")


def samples(depth: int) -> st.SearchStrategy[dict[str, Any]]:
    optional: dict[str, st.SearchStrategy[Any]] = {
        "plain": st.dictionaries(letters, letters, max_size=3),
        "replaced": st.lists(letters, max_size=3),
        "set": st.lists(letters, max_size=4, unique=True),
    }
    if depth:
        optional["items"] = st.lists(samples(depth - 1), max_size=4, unique_by=lambda item: item["name"])
    return st.fixed_dictionaries({"name": letters}, optional=optional)


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        there = old.get(name)
        if there == value and name != "name":
            continue
        if there is None or name in ("name", "replaced"):
            patch[name] = value
        elif name == "plain":
            patch[name] = {key: None for key in there if key not in value} | {
                key: text for key, text in value.items() if there.get(key) != text
            }
        elif name == "set":
            patch[name] = [item for item in value if item not in there]
            patch["$deleteFromPrimitiveList/set"] = [item for item in there if item not in value]
            patch["$setElementOrder/set"] = value
        else:
            had = {item["name"]: item for item in there}
            kept = {item["name"] for item in value}
            patch[name] = [
                difference(had[item["name"]], item) if item["name"] in had else item for item in value
            ]
            patch[name] += [{"$patch": "delete", "name": key} for key in had if key not in kept]
            patch["$setElementOrder/items"] = [{"name": item["name"]} for item in value]
    return patch


@given(samples(2), samples(2))
def test_the_difference_of_two_objects_turns_one_into_the_other(old: Any, new: Any) -> None:
    assert strategic.apply(old, difference(old, new), SAMPLE) == new


@given(samples(2), samples(2))
def test_patching_twice_is_patching_once(old: Any, patch: Any) -> None:
    once = strategic.apply(old, patch, SAMPLE)
    assert strategic.apply(once, patch, SAMPLE) == once


@given(samples(2), samples(2))
def test_a_patch_without_directives_removes_nothing_but_by_replacing(old: Any, patch: Any) -> None:
    result = strategic.apply(old, patch, SAMPLE)
    assert {*old, *patch} == set(result)
    assert {*old.get("set", []), *patch.get("set", [])} == set(result.get("set", []))
    assert {*old.get("plain", {}), *patch.get("plain", {})} == set(result.get("plain", {}))


noise = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | letters,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "name",
                    "set",
                    "items",
                    "plain",
                    "$patch",
                    "$retainKeys",
                    "$setElementOrder/items",
                    "$setElementOrder/set",
                    "$deleteFromPrimitiveList/set",
                    "$deleteFromPrimitiveList/",
                ]
            ),
            inner | st.sampled_from(["replace", "delete", "merge"]),
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(samples(2), noise)
def test_no_patch_does_worse_than_an_api_error(old: Any, patch: Any) -> None:
    try:
        strategic.apply(old, patch, SAMPLE)
    except ApiError as error:
        assert error.code in (400, 422)
