"""Hours of usage: nothing is lost and nothing counted twice, whatever is reported when."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from alcove.api import usage
from alcove.api.usage import HOUR_SECONDS, UsageAmounts
from alcove.api.usage_hours import HOURS_MAX, LATE_SECONDS, SETTLE_SECONDS, UsageHours, is_due, is_open

HOUR = 494_444
BEGIN = HOUR * HOUR_SECONDS


def seconds(count: int) -> UsageAmounts:
    return UsageAmounts(pod_seconds=count)


def total(hours: UsageHours) -> int:
    return sum(each.pod_seconds for tenants in hours.hours.values() for each in tenants.values())


def test_amounts_go_to_the_hour_in_which_they_began_while_it_is_open() -> None:
    hours = UsageHours({})
    hours.charge("a", seconds(1), BEGIN + 3590, BEGIN + 3650)
    hours.charge("a", seconds(2), BEGIN + 3590, BEGIN + HOUR_SECONDS + LATE_SECONDS)
    assert {hour: tenants["a"].pod_seconds for hour, tenants in hours.hours.items()} == {HOUR: 1, HOUR + 1: 2}


def test_an_hour_is_settled_after_it_was_closed() -> None:
    assert SETTLE_SECONDS > LATE_SECONDS
    end = BEGIN + HOUR_SECONDS
    assert is_open(HOUR, end + LATE_SECONDS - 1) and not is_open(HOUR, end + LATE_SECONDS)
    assert not is_due(HOUR, end + SETTLE_SECONDS - 1) and is_due(HOUR, end + SETTLE_SECONDS)


def test_what_was_not_reported_in_time_moves_to_the_current_hour() -> None:
    hours = UsageHours({HOUR: {"a": seconds(10), "b": seconds(5)}})
    now = BEGIN + 3 * HOUR_SECONDS
    hours.settle({HOUR: {"a": seconds(7)}}, -1, now)
    assert hours.hours == {HOUR: {"a": seconds(7)}, HOUR + 3: {"a": seconds(3), "b": seconds(5)}}
    hours.settle({HOUR: {"a": seconds(7)}}, HOUR, now)
    assert hours.hours == {HOUR + 3: {"a": seconds(3), "b": seconds(5)}}


def test_while_ring0_sums_up_nothing_the_number_of_hours_is_bounded() -> None:
    hours = UsageHours({HOUR + number: {"a": seconds(1)} for number in range(HOURS_MAX + 10)})
    reported = {hour: {"a": seconds(1)} for hour in hours.hours}
    hours.settle(reported, -1, BEGIN + (HOURS_MAX + 10) * HOUR_SECONDS)
    assert len(hours.hours) == HOURS_MAX
    assert total(hours) == HOURS_MAX + 10


@given(
    st.lists(st.tuples(st.integers(0, 30_000), st.integers(1, 9), st.booleans(), st.booleans()), max_size=40)
)
def test_the_sum_is_what_was_charged_whatever_gets_through(steps: list[tuple[int, int, bool, bool]]) -> None:
    """A reporter whose writes are lost now and then, and ring0, which sums up whenever it runs."""
    hours, settled, charged, summed, now = UsageHours({}), -1, 0, 0, BEGIN
    stored: dict[str, Any] = {}
    for passed, amount, is_written, is_summed in steps:
        since, now = now, now + passed
        hours.charge("a", seconds(amount), since, now)
        charged += amount
        hours.settle(usage.decode_hours(stored), settled, now)
        if is_written:
            stored = usage.encode_hours(hours.hours)
        if is_summed:
            due = max(hour for hour in range(HOUR - 2, usage.hour_of(now) + 1) if is_due(hour, now))
            for hour, tenants in usage.decode_hours(stored).items():
                summed += tenants["a"].pod_seconds if settled < hour <= due else 0
            settled = max(settled, due)
    hours.settle(usage.decode_hours(stored), settled, now)
    assert summed + total(hours) == charged
