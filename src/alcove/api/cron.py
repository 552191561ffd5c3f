"""Cron schedules: `minute hour day-of-month month day-of-week`, `@hourly` and its like, `@every 1h30m`.

A schedule is parsed once and then returns its next run times. Wall-clock times are those of the given time
zone: a time that a clock change skips does not occur that day, a time that it repeats occurs twice.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from alcove.api.short_cache import cache_short

SEARCH_YEARS = 5
"""A schedule that does not run within this many years (30 February) never runs."""
PARSED_SCHEDULES_MAX = 4096
LENGTH_MAX = 2_048
"""Characters of a schedule. One that names every minute, hour, day, month and weekday has 400; one of a megabyte is parsed for seconds."""


class CronError(ValueError):
    """The text is not a schedule; the message is the one Kubernetes uses."""


class _Bounds(Struct, frozen=True):
    lowest: int
    highest: int
    names: Mapping[str, int] = {}


def _numbered(first: int, names: str) -> dict[str, int]:
    return {name: first + index for index, name in enumerate(names.split())}


_MINUTES = _Bounds(0, 59)
_HOURS = _Bounds(0, 23)
_DAYS = _Bounds(1, 31)
_MONTHS = _Bounds(1, 12, _numbered(1, "jan feb mar apr may jun jul aug sep oct nov dec"))
_WEEKDAYS = _Bounds(0, 6, _numbered(0, "sun mon tue wed thu fri sat"))
_FIELDS = (_MINUTES, _HOURS, _DAYS, _MONTHS, _WEEKDAYS)

_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "


class _Field(Struct, frozen=True):
    """The values a field allows, in order, and whether it was `*`."""

    values: tuple[int, ...]
    open: bool


class Every(Struct, frozen=True):
    """A schedule that runs every `seconds` seconds."""

    seconds: int

    def next_after(self, epoch_seconds: float, zone: tzinfo = UTC) -> float | None:
        return float(int(epoch_seconds) + self.seconds)


class Schedule(Struct, frozen=True):
    """A schedule that runs at the minutes that all its fields allow."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    both_days: bool
    """Day of month and day of week must both match; otherwise either of them is enough."""

    def next_after(self, epoch_seconds: float, zone: tzinfo = UTC) -> float | None:
        """Return the first run later than `epoch_seconds`, or None if the schedule never runs again."""
        now = datetime.fromtimestamp(int(epoch_seconds), zone)
        for day in self._days_from(now.date()):
            for moment in self._moments(day, zone, now):
                if moment > epoch_seconds:
                    return moment
        return None

    def last(self, since: float, until: float, zone: tzinfo = UTC) -> float | None:
        """Return the latest run after `since` and not after `until`, or None if there is none.

        It is found by binary search: years of minutes cost a few dozen steps.
        """
        first = self.next_after(since, zone)
        if first is None or first > until:
            return None
        low, high = int(first) - 1, int(until)
        # A run follows `low` in time, none follows `high`.
        while high - low > 1:
            middle = (low + high) // 2
            candidate = self.next_after(middle, zone)
            if candidate is not None and candidate <= until:
                low = middle
            else:
                high = middle
        return self.next_after(low, zone)

    def _days_from(self, day: date) -> Iterator[date]:
        last_year = day.year + SEARCH_YEARS
        one_day = timedelta(days=1)
        while day.year <= last_year:
            if day.month not in self.months:
                # Skip to the first day of the next month.
                day = (day.replace(day=28) + timedelta(days=4)).replace(day=1)
                continue
            if self._fits(day):
                yield day
            day += one_day

    def _fits(self, day: date) -> bool:
        of_month = day.day in self.days
        of_week = day.isoweekday() % 7 in self.weekdays
        return (of_month and of_week) if self.both_days else (of_month or of_week)

    def _moments(self, day: date, zone: tzinfo, now: datetime) -> Iterator[float]:
        """Yield the run times of one day, in order, without those that are certainly not after `now`."""
        midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
        offset = midnight.utcoffset()
        if offset != (midnight + timedelta(days=1)).utcoffset():
            yield from self._moments_of_change(midnight, zone)
            return
        start = midnight.timestamp()
        earliest = now.hour if day == now.date() else 0
        for hour in self.hours[bisect_left(self.hours, earliest) :]:
            for minute in self.minutes:
                yield start + hour * 3600 + minute * 60

    def _moments_of_change(self, midnight: datetime, zone: tzinfo) -> list[float]:
        """Run times on a day when clocks change: a wall time occurs zero, one or two times."""
        moments = set()
        for hour in self.hours:
            for minute in self.minutes:
                for fold in (0, 1):
                    local = midnight.replace(hour=hour, minute=minute, fold=fold)
                    moment = local.timestamp()
                    shown = datetime.fromtimestamp(moment, zone)
                    if (shown.day, shown.hour, shown.minute) == (local.day, hour, minute):
                        moments.add(moment)
        return sorted(moments)


@cache_short(PARSED_SCHEDULES_MAX)
def parse(text: str) -> Schedule | Every:
    """Parse a schedule. Raises CronError."""
    if not text:
        raise CronError("empty spec string")
    if len(text) > LENGTH_MAX:
        raise CronError(f"the spec string must be no more than {LENGTH_MAX} characters")
    if text.startswith("@"):
        return _descriptor(text)
    return _schedule(text)


def _descriptor(text: str) -> Schedule | Every:
    if text in _DESCRIPTORS:
        return _schedule(_DESCRIPTORS[text])
    if not text.startswith(_EVERY):
        raise CronError(f"unrecognized descriptor: {text}")
    try:
        seconds = duration_seconds(text.removeprefix(_EVERY))
    except CronError as error:
        raise CronError(f"failed to parse duration {text}: {error}") from None
    return Every(max(1, int(seconds)))


def _schedule(text: str) -> Schedule:
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise CronError(f"expected exactly {len(_FIELDS)} fields, found {len(parts)}: [{' '.join(parts)}]")
    minutes, hours, days, months, weekdays = map(_field, parts, _FIELDS)
    return Schedule(
        minutes.values,
        hours.values,
        frozenset(days.values),
        frozenset(months.values),
        frozenset(weekdays.values),
        days.open or weekdays.open,
    )


def _field(text: str, bounds: _Bounds) -> _Field:
    """Parse a comma-separated list of ranges."""
    ranges = [_range(part, bounds) for part in text.split(",") if part]
    values = sorted({value for each in ranges for value in each.values})
    return _Field(tuple(values), any(each.open for each in ranges))


def _range(text: str, bounds: _Bounds) -> _Field:
    """`*`, `3`, `mon`, `1-5`, `*/15`, `3/15` (from 3 to the end), `1-5/2`."""
    span, *steps = text.split("/")
    low, *high = span.split("-")
    is_open = low in ("*", "?")
    if is_open:
        first, last = bounds.lowest, bounds.highest
    else:
        if len(high) > 1:
            raise CronError(f"too many hyphens: {text}")
        first = _number(low, bounds.names)
        last = _number(high[0], bounds.names) if high else first
    if len(steps) > 1:
        raise CronError(f"too many slashes: {text}")
    step = _number(steps[0], {}) if steps else 1
    if steps and not high:
        last = bounds.highest
    _check_range(first, last, step, bounds, text)
    return _Field(tuple(range(first, last + 1, step)), is_open and step == 1)


def _check_range(first: int, last: int, step: int, bounds: _Bounds, text: str) -> None:
    if first < bounds.lowest:
        raise CronError(f"beginning of range ({first}) below minimum ({bounds.lowest}): {text}")
    if last > bounds.highest:
        raise CronError(f"end of range ({last}) above maximum ({bounds.highest}): {text}")
    if first > last:
        raise CronError(f"beginning of range ({first}) beyond end of range ({last}): {text}")
    if step == 0:
        raise CronError(f"step of range should be a positive number: {text}")


def _number(text: str, names: Mapping[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    parsing = f'failed to parse int from {text}: strconv.Atoi: parsing "{text}"'
    if not re.fullmatch("[+-]?[0-9]+", text):
        raise CronError(f"{parsing}: invalid syntax")
    if len(text) > 18:
        raise CronError(f"{parsing}: value out of range")
    number = int(text)
    if number < 0:
        raise CronError(f"negative number ({number}) not allowed: {text}")
    return number


_UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION_PART = re.compile(r"([0-9]{0,12}\.?[0-9]{0,12})([^0-9.]+)")
_DURATION_SECONDS_MAX = 2**63 / 1e9


def duration_seconds(text: str) -> float:
    """Parse a duration as Go writes it: `1h30m`, `1.5h`, `90s`. Raises CronError."""
    if text == "0":
        return 0.0
    total, at = 0.0, 1 if text[:1] in ("+", "-") else 0
    if at == len(text):
        raise CronError(f'time: invalid duration "{text}"')
    while at < len(text):
        part = _DURATION_PART.match(text, at)
        if part is None or part[1] in ("", "."):
            missing = part is None and re.fullmatch(r"[0-9.]*[0-9][0-9.]*", text[at:])
            raise CronError(f'time: {"missing unit in" if missing else "invalid"} duration "{text}"')
        if part[2] not in _UNIT_SECONDS:
            raise CronError(f'time: unknown unit "{part[2]}" in duration "{text}"')
        total += float(part[1]) * _UNIT_SECONDS[part[2]]
        at = part.end()
    if total > _DURATION_SECONDS_MAX:
        raise CronError(f'time: invalid duration "{text}"')
    return -total if text.startswith("-") else total


def load_zone(name: str) -> tzinfo:
    """Return the time zone of an IANA name (`Europe/Berlin`, `Etc/UTC`). Raises CronError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CronError(f"unknown time zone {name}") from None
