"""The small checks, and what counts as the same."""

from typing import Any

import pytest

from alcove.api import names
from alcove.api.fields import FieldError
from alcove.api.validation import (
    check_choice,
    check_forbidden_fields,
    check_id,
    check_name,
    check_port_or_name,
    check_required_choice,
    difference,
    read_quantity,
    same,
)


def messages(errors: list[FieldError]) -> list[str]:
    return [str(error) for error in errors]


def test_checks_report_one_error_each() -> None:
    errors: list[FieldError] = []
    check_name("", names.dns_label, "a", errors)
    check_choice("x", ("p", "q"), "b", errors)
    check_required_choice("", ("p",), "c", errors)
    check_required_choice("x", ("p",), "d", errors)
    check_port_or_name(0, "e", errors)
    check_port_or_name("80", "f", errors)
    check_id(-1, "g", errors)
    assert messages(errors) == [
        "a: Required value",
        'b: Unsupported value: "x": supported values: "p", "q"',
        "c: Required value",
        'd: Unsupported value: "x": supported values: "p"',
        "e: Invalid value: 0: must be between 1 and 65535, inclusive",
        'f: Invalid value: "80": must contain at least one letter (a-z)',
        "g: Invalid value: -1: must be between 0 and 2147483647, inclusive",
    ]


def test_valid_values_have_no_errors() -> None:
    errors: list[FieldError] = []
    check_name("a", names.dns_label, "a", errors)
    check_choice("p", ("p", "q"), "b", errors)
    check_required_choice("p", ("p",), "c", errors)
    check_port_or_name(65535, "e", errors)
    check_port_or_name("http", "f", errors)
    check_id(0, "g", errors)
    assert read_quantity("1Gi", "h", errors) is not None
    check_forbidden_fields({"a": 1, "b": ""}, ("a",), "no", "x", errors)
    assert errors == []


def test_an_invalid_quantity_is_a_field_error_not_an_exception() -> None:
    errors: list[FieldError] = []
    assert read_quantity("x", "f", errors) is None
    assert messages(errors)[0].startswith(
        'f: Invalid value: "x": quantities must match the regular expression'
    )


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ({"a": []}, {}, True),
        ({"a": {}}, {"a": None}, True),
        ({"a": ""}, {}, True),
        ({"a": {"b": []}}, {}, True),
        ({"hostNetwork": False}, {}, True),
        ({"hostPort": 0}, {}, True),
        ({"runAsUser": 0}, {}, False),
        ({"automountServiceAccountToken": False}, {}, False),
        ({"storageClassName": ""}, {}, False),
        ({"namespaceSelector": {}}, {}, False),
        ({"emptyDir": {}}, {}, False),
        ([{"a": 1}], [{"a": 1}, {}], False),
        ([1, 2], [2, 1], False),
        ({"a": 1}, {"a": 1}, True),
    ],
)
def test_same_means_equal_as_go_structs(new: Any, old: Any, expected: bool) -> None:
    assert same(new, old) is expected
    assert same(old, new) is expected


def test_a_difference_shows_the_lines_that_differ() -> None:
    shown = difference({"a": 1, "b": [1]}, {"a": 2, "b": [1]})
    assert '- "a": 1,\n+ "a": 2,\n' in shown
    assert shown.startswith("@@ ")


def test_a_large_difference_is_not_computed() -> None:
    assert difference(list(range(2000)), list(range(1, 2001))) == "(too large to show)"
