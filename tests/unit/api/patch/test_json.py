"""JSON patch: the RFC's rules, Kubernetes' limits, and that a patch made of a difference makes it."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.errors import ApiError, BadRequest, Invalid, TooLarge, status
from alcove.api.patch import json as json_patch

scalars = (
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.floats(-1e6, 1e6) | st.text(max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab/~é", max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)
documents = st.dictionaries(st.text("ab/~é", max_size=3), values, max_size=4)


@pytest.mark.parametrize(
    ("document", "operations", "expected"),
    [
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"a": 1}, [{"op": "add", "path": "/a", "value": None}], {"a": None}),
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": [2]}], {"a": [1, [2]]}),
        ({"a": [1, 2]}, [{"op": "add", "path": "/a/2", "value": 3}], {"a": [1, 2, 3]}),
        ({"a": [1, 2]}, [{"op": "add", "path": "/a/-1", "value": 3}], {"a": [1, 2, 3]}),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/-1"}], {"a": [1]}),
        ({"a": {"b": 1}}, [{"op": "remove", "path": "/a/b"}], {"a": {}}),
        ({"a": [1, 2]}, [{"op": "replace", "path": "/a/0", "value": 9}], {"a": [9, 2]}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
        (
            {"a": {"b": 1}, "c": {}},
            [{"op": "move", "from": "/a/b", "path": "/c/d"}],
            {"a": {}, "c": {"d": 1}},
        ),
        ({"a": [1, 2, 3]}, [{"op": "move", "from": "/a/0", "path": "/a/2"}], {"a": [2, 3, 1]}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),
        ({"a": {"b": []}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": []}, "c": {"b": []}}),
        ({"a/b": 1, "~": 2}, [{"op": "remove", "path": "/a~1b"}, {"op": "remove", "path": "/~0"}], {}),
        ({"~1": 1}, [{"op": "test", "path": "/~01", "value": 1}], {"~1": 1}),
        ({"": 1}, [{"op": "remove", "path": "/"}], {}),
        ({"a": 1.0}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1.0}),
        (
            {"a": {"b": 1, "c": 2}},
            [{"op": "test", "path": "/a", "value": {"c": 2, "b": 1}}],
            {"a": {"b": 1, "c": 2}},
        ),
        ({}, [{"op": "test", "path": "/a", "value": None}], {}),
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 2, "extra": "ignored"}], {"a": 1, "b": 2}),
        ({"a": 1}, [], {"a": 1}),
    ],
)
def test_operations(document: Any, operations: Any, expected: Any) -> None:
    before = copy.deepcopy(document)
    assert json_patch.apply(document, operations) == expected
    assert document == before


@pytest.mark.parametrize(
    ("document", "operations", "why"),
    [
        ({"a": 1}, [{"op": "test", "path": "/a", "value": 2}], "testing value /a failed"),
        ({"a": 1}, [{"op": "test", "path": "/a", "value": True}], "testing value /a failed"),
        ({"a": [True]}, [{"op": "test", "path": "/a", "value": [1]}], "testing value /a failed"),
        ({"a": {"b": 1}}, [{"op": "test", "path": "/a", "value": {"c": 1}}], "testing value /a failed"),
        ({}, [{"op": "remove", "path": "/a"}], "there is no /a"),
        ({}, [{"op": "remove", "path": ""}], "the whole document cannot be removed"),
        ({}, [{"op": "replace", "path": "/a", "value": 1}], "there is no /a"),
        ({}, [{"op": "add", "path": "/a/b", "value": 1}], "there is nothing at a"),
        ({"a": 1}, [{"op": "add", "path": "/a/b", "value": 1}], "there is nothing at a"),
        ({"a": [1]}, [{"op": "add", "path": "/a/3", "value": 1}], "index 3 is out of bounds"),
        ({"a": [1]}, [{"op": "add", "path": "/a/x", "value": 1}], "x is not an index"),
        ({"a": [1]}, [{"op": "add", "path": "/a/1_0", "value": 1}], "1_0 is not an index"),
        ({"a": [1]}, [{"op": "remove", "path": "/a/-2"}], "index -2 is out of bounds"),
        ({"a": [1]}, [{"op": "remove", "path": "/a/-"}], "- is not an index"),
        ({"a": [1]}, [{"op": "remove", "path": "/a/99999999999999999999"}], "is not an index"),
        ({"a": {}}, [{"op": "move", "from": "/a", "path": "/a/b"}], "/a/b is inside /a"),
        ({}, [{"op": "copy", "from": "/a", "path": "/b"}], "there is no /a"),
        ({}, [{"op": "copy", "path": "/b"}], 'it has no "from"'),
        ({}, [{"op": "add", "path": "/b"}], 'it has no "value"'),
        ({}, [{"op": "add", "value": 1}], 'it has no "path"'),
        ({}, [{"op": "add", "path": "a", "value": 1}], 'does not start with "/"'),
        ({}, [{"op": "frobnicate", "path": "/a"}], 'unexpected kind of operation "frobnicate"'),
        ({}, [{"path": "/a"}], 'unexpected kind of operation ""'),
        ({}, [{"op": "replace", "path": "", "value": [1]}], "is not an object"),
    ],
)
def test_a_patch_that_does_not_apply_is_invalid(document: Any, operations: Any, why: str) -> None:
    before = copy.deepcopy(document)
    with pytest.raises(Invalid) as raised:
        json_patch.apply(document, operations)
    messages = status(raised.value)
    assert (messages["code"], messages["reason"]) == (422, "Invalid")
    assert messages["message"].startswith("the server rejected our request due to an error in our request: ")
    assert why in messages["message"]
    assert document == before


@pytest.mark.parametrize(
    "operations",
    [{}, None, "add", 1, ["add"], [None], [{"op": 1, "path": "/a"}], [{"op": "add", "path": 1}]],
)
def test_a_malformed_patch_is_a_bad_request(operations: Any) -> None:
    with pytest.raises(BadRequest, match="error decoding patch: "):
        json_patch.apply({}, operations)


def test_a_later_failure_undoes_nothing_because_nothing_was_done() -> None:
    document = {"a": {"b": [1]}}
    with pytest.raises(Invalid):
        json_patch.apply(
            document, [{"op": "add", "path": "/a/b/-", "value": 2}, {"op": "remove", "path": "/x"}]
        )
    assert document == {"a": {"b": [1]}}


def test_the_patch_and_the_result_share_nothing() -> None:
    operations: Any = [
        {"op": "add", "path": "/a", "value": {"b": []}},
        {"op": "copy", "from": "/a", "path": "/c"},
    ]
    patched = json_patch.apply({}, operations)
    patched["a"]["b"].append(1)
    assert patched["c"] == {"b": []}
    assert operations[0]["value"] == {"b": []}


def test_ten_thousand_operations_are_the_most() -> None:
    most = [{"op": "add", "path": "/a", "value": 1}] * 10_000
    assert json_patch.apply({}, most) == {"a": 1}
    with pytest.raises(TooLarge) as raised:
        json_patch.apply({}, [*most, most[0]])
    assert raised.value.message == "The allowed maximum operations in a JSON patch is 10000, got 10001"


def test_copies_that_double_the_document_are_stopped() -> None:
    doubling = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 64
    with pytest.raises(Invalid, match="exceeding the limit 3145728"):
        json_patch.apply({"a": ["x" * 1000]}, doubling)


def test_copies_of_very_many_values_are_stopped() -> None:
    doubling = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 3
    with pytest.raises(Invalid, match="copy operations would copy more than 50000 values"):
        json_patch.apply({"a": [[]] * 20_000}, doubling)


def test_deep_nesting_is_refused_not_a_crash() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(BadRequest, match="nested too deeply"):
        json_patch.apply({}, [{"op": "add", "path": "/a", "value": deep}])


def _escaped(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")


def difference(old: Any, new: Any, path: str = "") -> list[dict[str, Any]]:
    """Operations that turn `old` into `new`."""
    if json_patch.same(old, new):
        return []
    if type(old) is dict and type(new) is dict:
        made = [{"op": "remove", "path": f"{path}/{_escaped(name)}"} for name in old if name not in new]
        for name, value in new.items():
            at = f"{path}/{_escaped(name)}"
            made += (
                difference(old[name], value, at)
                if name in old
                else [{"op": "add", "path": at, "value": value}]
            )
        return made
    if type(old) is list and type(new) is list:
        shared = min(len(old), len(new))
        made = [step for at in range(shared) for step in difference(old[at], new[at], f"{path}/{at}")]
        made += [{"op": "remove", "path": f"{path}/{shared}"}] * (len(old) - shared)
        return made + [{"op": "add", "path": f"{path}/-", "value": value} for value in new[shared:]]
    return [{"op": "replace", "path": path, "value": new}]


@given(documents, documents)
def test_the_difference_of_two_documents_turns_one_into_the_other(old: Any, new: Any) -> None:
    assert json_patch.same(json_patch.apply(old, difference(old, new)), new)


@given(
    documents,
    st.lists(st.fixed_dictionaries({"op": st.text(max_size=5), "path": st.text(max_size=5)}) | values),
)
def test_no_patch_does_worse_than_an_api_error(document: Any, operations: Any) -> None:
    try:
        assert type(json_patch.apply(document, operations)) is dict
    except ApiError as error:
        assert error.code in (400, 422)
