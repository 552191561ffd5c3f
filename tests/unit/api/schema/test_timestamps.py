from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.schema.timestamps import canonical

ZONES = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=ZONES))
def test_any_zone_becomes_utc(moment: datetime) -> None:
    micro = canonical(moment.isoformat(timespec="microseconds"), micro=True)
    whole = canonical(moment.isoformat(timespec="microseconds"), micro=False)

    assert datetime.fromisoformat(micro) == moment
    assert micro.endswith("Z")
    assert datetime.fromisoformat(whole) == moment.astimezone(UTC).replace(microsecond=0)
    assert len(whole) == 20


def test_nine_digits_are_cut_to_six() -> None:
    assert canonical("2024-05-01T10:00:00.123456789Z", micro=True) == "2024-05-01T10:00:00.123456Z"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("yesterday", 'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"'),
        ("2024-05-01", 'parsing time "2024-05-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"'),
        ("2024-05-01T10:00:00", 'parsing time "2024-05-01T10:00:00" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"'),
        ("2024-13-01T10:00:00Z", 'parsing time "2024-13-01T10:00:00Z": month out of range'),
        ("2024-02-30T10:00:00Z", 'parsing time "2024-02-30T10:00:00Z": day out of range'),
        ("2024-02-03T25:00:00+01:00", 'parsing time "2024-02-03T25:00:00+01:00": hour out of range'),
        ("2024-02-03T05:00:00Zx", 'parsing time "2024-02-03T05:00:00Zx": extra text: "x"'),
        ("2024-W01-1T00:00:00Z", 'parsing time "2024-W01-1T00:00:00Z" as "2006-01-02T15:04:05Z07:00": cannot parse "W01-1T00:00:00Z" as "01"'),
    ],
)  # fmt: skip
def test_errors_have_the_text_of_go(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        canonical(text, micro=False)
    assert str(caught.value) == message
