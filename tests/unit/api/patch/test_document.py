"""What all patches share: copies, names of types, and the bound on nesting."""

from typing import Any

import pytest

from alcove.api.errors import BadRequest
from alcove.api.patch.document import bounded, copy, rejected, type_name


def test_a_copy_is_equal_and_shares_nothing() -> None:
    original: Any = {"a": [1, 1.5, True, None, "é", {"b": {}}]}
    copied = copy(original)
    assert copied == original
    copied["a"].append(1)
    copied["a"][5]["b"]["c"] = 1
    assert original == {"a": [1, 1.5, True, None, "é", {"b": {}}]}


def test_types_are_named_as_json_names_them() -> None:
    values = [{}, [], "", True, 1, 1.5, None]
    assert [type_name(value) for value in values] == [
        "object",
        "array",
        "string",
        "boolean",
        "number",
        "number",
        "null",
    ]


def test_endless_recursion_is_a_bad_request() -> None:
    @bounded
    def endless(depth: int) -> int:
        return endless(depth + 1)

    with pytest.raises(BadRequest, match="nested too deeply"):
        endless(0)


def test_a_patch_that_does_not_apply_has_the_message_of_kubernetes() -> None:
    assert rejected("why").message == "the server rejected our request due to an error in our request: why"
    assert (rejected("why").code, rejected("why").reason) == (422, "Invalid")
