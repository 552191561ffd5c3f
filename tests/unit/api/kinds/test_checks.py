"""The small checks that many kinds share, at their edges."""

import pytest

from alcove.api.kinds import checks
from alcove.api.objects import Object


@pytest.mark.parametrize(
    ("value", "number", "percent"),
    [(3, 3, None), ("25%", 25, 25), ("0%", 0, 0), ("many", 0, None), ("-1%", 0, None), ("", 0, None)],
)
def test_int_or_percent(value: int | str, number: int, percent: int | None) -> None:
    assert checks.int_or_percent_value(value) == number
    assert checks.percent_value(value) == percent


def test_fill_leaves_what_is_given() -> None:
    obj: Object = {"zero": 0, "no": False, "empty": ""}
    for field in ("zero", "no", "empty", "missing"):
        checks.fill(obj, field, "filled")
    assert obj == {"zero": 0, "no": False, "empty": "filled", "missing": "filled"}


def test_unchanged_takes_empty_for_none() -> None:
    assert not checks.unchanged({"a": {}, "b": []}, {}, "spec", "a", "b")
    [error] = checks.unchanged({"a": 1}, {"a": 2}, "", "a")
    assert str(error) == "a: Invalid value: 1: field is immutable"


@pytest.mark.parametrize(
    ("now", "before", "refused"),
    [(None, None, False), (1, None, False), (2, 1, False), (1, 1, False), (0, 1, True), (None, 1, True)],
)
def test_not_decremented(now: int | None, before: int | None, refused: bool) -> None:
    new, old = ({} if count is None else {"n": count} for count in (now, before))
    assert bool(checks.not_decremented(new, old, "status", "n")) is refused


def condition(**fields: str) -> Object:
    return {
        "type": "Ready",
        "status": "True",
        "reason": "Because",
        "lastTransitionTime": "2024-01-01T00:00:00Z",
        **fields,
    }


def test_conditions_are_bounded() -> None:
    assert not checks.conditions([condition(message="x" * 32768)], "c")
    long = condition(message="x" * 32769, reason="x" * 1025)
    assert [str(error) for error in checks.conditions([long], "c")] == [
        "c[0].reason: Too long: may not be more than 1024 bytes",
        "c[0].message: Too long: may not be more than 32768 bytes",
    ]


def test_refused_shows_no_value() -> None:
    assert str(checks.refused("spec", "is odd")) == "spec: Invalid value: is odd"
