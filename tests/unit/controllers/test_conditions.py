"""Conditions change their time only with their status, and leave others' alone."""

from alcove.controllers.conditions import Condition, is_true, updated

OTHER = {"type": "Other", "status": "True"}


def test_a_transition_has_its_time_and_keeps_it() -> None:
    first = updated([OTHER], [Condition("Ready", False, "Waits", "for a")], 0)
    assert first[0] == OTHER and first[1]["lastTransitionTime"] == "1970-01-01T00:00:00Z"
    second = updated(first, [Condition("Ready", False, "Waits", "for b")], 60)
    assert second[1]["message"] == "for b" and second[1]["lastTransitionTime"] == "1970-01-01T00:00:00Z"
    third = updated(second, [Condition("Ready", True, "Done", "")], 120)
    assert third[1]["lastTransitionTime"] == "1970-01-01T00:02:00Z"
    assert updated(third, [Condition("Ready", True, "Done", "")], 180) == third


def test_asking() -> None:
    assert is_true({"status": {"conditions": [OTHER]}}, "Other")
    assert not is_true({"status": {"conditions": [OTHER]}}, "Ready")
    assert not is_true({}, "Other")
