"""Cron schedules: what they spell, when they are due, and how clock changes are taken."""

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api import cron

NEW_YORK = ZoneInfo("America/New_York")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")


def at(text: str, zone: tzinfo = UTC) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()


def upcoming(schedule: str, after: str, count: int, zone: tzinfo = UTC) -> list[str]:
    """The next `count` times it is due, as they are shown in the zone."""
    parsed, moment, shown = cron.parse(schedule), at(after, zone), []
    for _ in range(count):
        due = parsed.next_after(moment, zone)
        assert due is not None
        moment = due
        shown.append(datetime.fromtimestamp(due, zone).isoformat(timespec="minutes"))
    return shown


NEXT = [
    ("*/15 * * * *", "2024-07-09T14:45", "2024-07-09T15:00"),
    ("*/15 * * * *", "2024-07-09T14:59:59", "2024-07-09T15:00"),
    ("20-35/15 * * * *", "2024-07-09T15:45", "2024-07-09T16:20"),
    ("5/20 * * * *", "2024-07-09T15:26", "2024-07-09T15:45"),
    ("0 0 * * *", "2024-07-09T15:00", "2024-07-10T00:00"),
    ("30 14 * * *", "2024-07-09T14:29:59", "2024-07-09T14:30"),
    ("0 0 * feb mon", "2024-07-09T15:00", "2025-02-03T00:00"),
    ("0 0 29 feb ?", "2024-03-01T00:00", "2028-02-29T00:00"),
    ("0 0 1,15 * *", "2024-12-15T00:00", "2025-01-01T00:00"),
    # Both days restricted: either is enough. One left open: both must fit.
    ("0 0 13 * fri", "2024-07-06T00:00", "2024-07-12T00:00"),
    ("0 0 13 * fri", "2024-07-12T00:00", "2024-07-13T00:00"),
    ("0 0 */2 * fri", "2024-07-06T00:00", "2024-07-07T00:00"),
    ("0 0 * * sun", "2024-07-09T00:00", "2024-07-14T00:00"),
    ("0 22 * * 1-5", "2024-07-12T22:00", "2024-07-15T22:00"),
    ("@hourly", "2024-07-09T15:30", "2024-07-09T16:00"),
    ("@daily", "2024-07-09T15:30", "2024-07-10T00:00"),
    ("@midnight", "2024-12-31T15:30", "2025-01-01T00:00"),
    ("@weekly", "2024-07-09T00:00", "2024-07-14T00:00"),
    ("@monthly", "2024-07-09T00:00", "2024-08-01T00:00"),
    ("@yearly", "2024-07-09T00:00", "2025-01-01T00:00"),
    ("@annually", "2024-07-09T00:00", "2025-01-01T00:00"),
    ("@every 1h30m", "2024-07-09T14:45", "2024-07-09T16:15"),
    ("@every 1.5h", "2024-07-09T14:45", "2024-07-09T16:15"),
    ("@every 90m", "2024-07-09T14:45", "2024-07-09T16:15"),
]


@pytest.mark.parametrize(("schedule", "after", "expected"), NEXT)
def test_next(schedule: str, after: str, expected: str) -> None:
    assert cron.parse(schedule).next_after(at(after), UTC) == at(expected)


def test_never_due() -> None:
    assert cron.parse("0 0 30 feb ?").next_after(at("2024-01-01"), UTC) is None


def test_every_is_never_less_than_a_second() -> None:
    for text in ("@every 10ms", "@every -5m", "@every 0"):
        assert cron.parse(text) == cron.Every(1)
    assert cron.parse("@every 1500ms") == cron.Every(1)


def test_a_skipped_time_does_not_happen() -> None:
    assert upcoming("30 2 * * *", "2024-03-09T12:00", 2, NEW_YORK) == [
        "2024-03-11T02:30-04:00",
        "2024-03-12T02:30-04:00",
    ]
    assert upcoming("0 * * * *", "2024-03-10T01:00", 2, NEW_YORK) == [
        "2024-03-10T03:00-04:00",
        "2024-03-10T04:00-04:00",
    ]


def test_a_repeated_time_happens_twice() -> None:
    assert upcoming("30 1 * * *", "2024-11-03T00:00", 3, NEW_YORK) == [
        "2024-11-03T01:30-04:00",
        "2024-11-03T01:30-05:00",
        "2024-11-04T01:30-05:00",
    ]


def test_clocks_may_change_by_half_an_hour() -> None:
    assert upcoming("*/15 1 * * *", "2024-04-07T01:20", 5, LORD_HOWE) == [
        "2024-04-07T01:30+11:00",
        "2024-04-07T01:45+11:00",
        "2024-04-07T01:30+10:30",
        "2024-04-07T01:45+10:30",
        "2024-04-08T01:00+10:30",
    ]


REFUSED = [
    ("", "empty spec string"),
    ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
    ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
    ("60 * * * *", "end of range (60) above maximum (59): 60"),
    ("* 24 * * *", "end of range (24) above maximum (23): 24"),
    ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
    ("* * * 13 *", "end of range (13) above maximum (12): 13"),
    ("* * * * 7", "end of range (7) above maximum (6): 7"),
    ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
    ("*/0 * * * *", "step of range should be a positive number: */0"),
    ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
    ("1/2/3 * * * *", "too many slashes: 1/2/3"),
    ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
    ("*/-5 * * * *", "negative number (-5) not allowed: -5"),
    ("99999999999999999999 * * * *",
     'failed to parse int from 99999999999999999999: strconv.Atoi: parsing "99999999999999999999": value out of range'),
    ("@sometimes", "unrecognized descriptor: @sometimes"),
    ("@every", "unrecognized descriptor: @every"),
    ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
    ("@every 5", 'failed to parse duration @every 5: time: missing unit in duration "5"'),
    ("@every 5d", 'failed to parse duration @every 5d: time: unknown unit "d" in duration "5d"'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(cron.CronError) as refused:
        cron.parse(text)
    assert str(refused.value) == message


def brute_force(schedule: cron.Schedule, after: float, zone: tzinfo) -> float | None:
    """Minute by minute, for three days."""
    moment = (int(after) // 60 + 1) * 60
    for _ in range(3 * 24 * 60):
        local = datetime.fromtimestamp(moment, zone)
        of_month, of_week = local.day in schedule.days, local.isoweekday() % 7 in schedule.weekdays
        days = (of_month and of_week) if schedule.both_days else (of_month or of_week)
        if (
            days
            and local.month in schedule.months
            and local.hour in schedule.hours
            and local.minute in schedule.minutes
        ):
            return float(moment)
        moment += 60
    return None


def _field(lowest: int, highest: int) -> st.SearchStrategy[str]:
    value = st.integers(lowest, highest)
    return st.one_of(
        st.just("*"),
        value.map(str),
        st.integers(1, 20).map(lambda step: f"*/{step}"),
        st.tuples(value, value).map(lambda pair: f"{min(pair)}-{max(pair)}"),
    )


@given(
    st.tuples(_field(0, 59), _field(0, 23), _field(1, 31), _field(1, 12), _field(0, 6)).map(" ".join),
    st.integers(int(at("2024-03-08")), int(at("2024-03-12"))) | st.integers(int(at("2024-11-01")), int(at("2024-11-05"))),
    st.sampled_from([UTC, NEW_YORK, ZoneInfo("Europe/Berlin")]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_next_is_the_first_minute_that_fits(text: str, after: int, zone: tzinfo) -> None:
    schedule = cron.parse(text)
    assert isinstance(schedule, cron.Schedule)
    expected = brute_force(schedule, after, zone)
    due = schedule.next_after(after, zone)
    if expected is not None:
        assert due == expected
    else:
        assert due is None or due > after + 3 * 24 * 3600 - 60


@given(st.text(alphabet=st.sampled_from("0123456789*/,-? @everymonhd."), max_size=30) | st.text(max_size=20))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        schedule = cron.parse(text)
    except cron.CronError:
        return
    due = schedule.next_after(0.0, UTC)
    assert due is None or due > 0


def test_zones() -> None:
    assert cron.load_zone("America/New_York") == NEW_YORK
    for name in ("Mars/Olympus", "../../etc/passwd", "", "Europe", "/etc/localtime"):
        with pytest.raises(cron.CronError, match="unknown time zone"):
            cron.load_zone(name)


@pytest.mark.parametrize(
    ("text", "since", "until", "expected"),
    [
        ("0 20 * * *", "2024-07-08T00:00", "2024-07-09T19:59:59", "2024-07-08T20:00"),
        ("0 20 * * *", "2024-07-08T00:00", "2024-07-09T20:00", "2024-07-09T20:00"),
        ("0 20 * * *", "2024-07-08T20:00", "2024-07-09T19:00", None),
        ("* * * * *", "2014-07-08T00:00", "2024-07-09T19:59:30", "2024-07-09T19:59"),
    ],
)
def test_the_last_time_in_an_interval(text: str, since: str, until: str, expected: str | None) -> None:
    schedule = cron.parse(text)
    assert isinstance(schedule, cron.Schedule)
    assert schedule.last(at(since), at(until)) == (None if expected is None else at(expected))


def test_a_schedule_that_is_parsed_for_seconds_is_refused() -> None:
    longest = ",".join(map(str, range(60))) + " " + ",".join(map(str, range(24))) + " * * *"
    assert cron.parse(longest) == cron.parse("* * * * *")
    with pytest.raises(cron.CronError, match="no more than 2048 characters"):
        cron.parse(",".join(["0-59/1"] * 1_000) + " * * * *")
