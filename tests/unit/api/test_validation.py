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


def told(faults: list[FieldError]) -> list[str]:
    return [str(fault) for fault in faults]


def test_checks_tell_one_fault_each() -> None:
    faults: list[FieldError] = []
    check_name("", names.dns_label, "a", faults)
    check_choice("x", ("p", "q"), "b", faults)
    check_required_choice("", ("p",), "c", faults)
    check_required_choice("x", ("p",), "d", faults)
    check_port_or_name(0, "e", faults)
    check_port_or_name("80", "f", faults)
    check_id(-1, "g", faults)
    assert told(faults) == [
        "a: Required value",
        'b: Unsupported value: "x": supported values: "p", "q"',
        "c: Required value",
        'd: Unsupported value: "x": supported values: "p"',
        "e: Invalid value: 0: must be between 1 and 65535, inclusive",
        'f: Invalid value: "80": must contain at least one letter (a-z)',
        "g: Invalid value: -1: must be between 0 and 2147483647, inclusive",
    ]


def test_good_values_tell_nothing() -> None:
    faults: list[FieldError] = []
    check_name("a", names.dns_label, "a", faults)
    check_choice("p", ("p", "q"), "b", faults)
    check_required_choice("p", ("p",), "c", faults)
    check_port_or_name(65535, "e", faults)
    check_port_or_name("http", "f", faults)
    check_id(0, "g", faults)
    assert read_quantity("1Gi", "h", faults) is not None
    check_forbidden_fields({"a": 1, "b": ""}, ("a",), "no", "x", faults)
    assert faults == []


def test_a_bad_quantity_is_a_fault_not_an_error() -> None:
    faults: list[FieldError] = []
    assert read_quantity("x", "f", faults) is None
    assert told(faults)[0].startswith('f: Invalid value: "x": quantities must match the regular expression')


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
def test_same_is_what_go_structs_cannot_tell_apart(new: Any, old: Any, expected: bool) -> None:
    assert same(new, old) is expected
    assert same(old, new) is expected


def test_a_difference_shows_the_lines_that_differ() -> None:
    shown = difference({"a": 1, "b": [1]}, {"a": 2, "b": [1]})
    assert '- "a": 1,\n+ "a": 2,\n' in shown
    assert shown.startswith("@@ ")


def test_a_large_difference_is_not_computed() -> None:
    assert difference(list(range(2000)), list(range(1, 2001))) == "(too large to show)"
