"""Timestamps and durations: reading and writing are inverse, ranges are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.cel.errors import CelError
from alcove.api.cel.times import SECOND, Duration, Timestamp, parse_date, parse_duration, parse_timestamp

EARLIEST, LATEST = -62_135_596_800 * SECOND, 253_402_300_800 * SECOND - 1


@given(st.integers(EARLIEST, LATEST))
def test_a_timestamp_reads_back_as_it_was_written(nanos: int) -> None:
    moment = Timestamp(nanos)
    assert parse_timestamp(str(moment)) == moment


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_duration_reads_back_as_it_was_written(nanos: int) -> None:
    assert parse_duration(str(Duration(nanos))) == Duration(nanos)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (parse_timestamp, parse_duration, parse_date):
        read(text)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59.5Z", -SECOND // 2),
        ("1970-01-01T00:00:00.123456789Z", 123_456_789),
    ],
)
def test_timestamps(text: str, nanos: int) -> None:
    assert parse_timestamp(text) == Timestamp(nanos)


@pytest.mark.parametrize(
    "text", ["", "2020", "2020-01-01", "2020-13-01T00:00:00Z", "2020-01-01T25:00:00Z", "2020-01-01T00:00:00"]
)
def test_no_timestamps(text: str) -> None:
    assert parse_timestamp(text) is None


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("1s", SECOND),
        ("-1.5h", -5400 * SECOND),
        ("1h1m1s1ms1us1ns", 3_661_001_001_001),
        (".5s", SECOND // 2),
        ("+2µs", 2_000),
    ],
)
def test_durations(text: str, nanos: int) -> None:
    assert parse_duration(text) == Duration(nanos)


@pytest.mark.parametrize("text", ["", "1", "s", "-", "1d", "--1s", "1s ", ".s", "99999999999h"])
def test_no_durations(text: str) -> None:
    assert parse_duration(text) is None


def test_ranges_are_kept() -> None:
    with pytest.raises(CelError, match="timestamp overflow"):
        Timestamp(LATEST + 1)
    with pytest.raises(CelError, match="duration overflow"):
        Duration(2**63)
