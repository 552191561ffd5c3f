"""Amounts of usage, and their form in the API."""

import pytest

from alcove.api import usage
from alcove.api.usage import API_NAMES, FIELDS, UsageAmounts

HOUR = usage.parse_hour("2026-11-16T14:00:00Z")


def test_hours_survive_the_way_through_the_api() -> None:
    hours = {HOUR: {"a": UsageAmounts(*range(1, len(FIELDS) + 1)), "idle": UsageAmounts()}, HOUR + 1: {}}
    encoded = usage.encode_hours(hours)
    assert list(encoded) == ["2026-11-16T14:00:00Z"], "what is zero is left out"
    assert set(encoded["2026-11-16T14:00:00Z"]) == {"a"}
    assert usage.decode_hours(encoded) == {HOUR: {"a": hours[HOUR]["a"]}}
    assert set(encoded["2026-11-16T14:00:00Z"]["a"]) == set(API_NAMES)


@pytest.mark.parametrize(
    "bad",
    [
        {"not a time": {"a": {"podSeconds": 1}}},
        {"2026-11-16T14:00:00Z": {"a": {"podSeconds": -1}}},
        {"2026-11-16T14:00:00Z": {"a": {"podSeconds": 2**63}}},
        {"2026-11-16T14:00:00Z": {"a": {"podSeconds": "1"}}},
        {"2026-11-16T14:00:00Z": 5},
    ],
)
def test_what_no_reporter_writes_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        usage.decode_hours(bad)


def test_a_difference_is_never_negative() -> None:
    more, less = UsageAmounts(pod_seconds=5, pods_started=1), UsageAmounts(pod_seconds=3, world_in_bytes=9)
    assert more.less(less) == UsageAmounts(pod_seconds=2, pods_started=1)
    assert not UsageAmounts() and more
