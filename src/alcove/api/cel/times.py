"""Timestamps and durations with nanosecond precision, within CEL's ranges."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache, total_ordering
from zoneinfo import ZoneInfo

from alcove.api.cel.errors import CelError

SECOND = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST = -62_135_596_800 * SECOND
_LATEST = 253_402_300_800 * SECOND - 1
_INT64 = 2**63


@total_ordering
class Timestamp:
    """An instant: nanoseconds since 1970 in UTC."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        if not _EARLIEST <= nanos <= _LATEST:
            raise CelError("timestamp overflow")
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanos == other.nanos

    def __lt__(self, other: Timestamp) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __str__(self) -> str:
        moment = self.at(UTC)
        fraction = _fraction(self.nanos % SECOND)
        return f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}{fraction}Z"

    def at(self, zone: tzinfo) -> datetime:
        """Return the local time in a zone, to the second (a datetime has no nanoseconds)."""
        try:
            return (_EPOCH + timedelta(seconds=self.nanos // SECOND)).astimezone(zone)
        except OverflowError as error:
            raise CelError("timestamp overflow") from error


@total_ordering
class Duration:
    """A span of time in nanoseconds."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        if not -_INT64 <= nanos < _INT64:
            raise CelError("duration overflow")
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanos == other.nanos

    def __lt__(self, other: Duration) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __str__(self) -> str:
        sign = "-" if self.nanos < 0 else ""
        seconds, rest = divmod(abs(self.nanos), SECOND)
        return f"{sign}{seconds}{_fraction(rest)}s"


def _fraction(nanos: int) -> str:
    return f".{nanos:09}".rstrip("0") if nanos else ""


_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]{1,30}))?"
    r"(Z|z|[+-][0-9]{2}:[0-9]{2})?"
)


def parse_timestamp(text: str, *, zone_required: bool = True) -> Timestamp | None:
    """Parse RFC 3339; None if the text is not. Without a zone it is UTC, if that is allowed."""
    match = _RFC3339.fullmatch(text)
    if match is None or (zone_required and not match[8]):
        return None
    try:
        moment = datetime(*(int(match[part]) for part in range(1, 7)), tzinfo=UTC)  # type: ignore[misc,arg-type]
    except ValueError:
        return None
    offset = match[8] or "Z"
    shift = 0
    if offset not in "Zz":
        hours, minutes = int(offset[1:3]), int(offset[4:6])
        if hours > 23 or minutes > 59:
            return None
        shift = (hours * 3600 + minutes * 60) * (1 if offset[0] == "+" else -1)
    span = moment - _EPOCH
    nanos = int((match[7] or "0").ljust(9, "0")[:9])
    return Timestamp((span.days * 86_400 + span.seconds - shift) * SECOND + nanos)


def parse_date(text: str) -> Timestamp | None:
    """Parse `2006-01-02`."""
    return parse_timestamp(f"{text}T00:00:00Z") if len(text) == 10 else None


_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_PART = re.compile(r"([0-9]{0,40})(?:\.([0-9]{0,40}))?(ns|us|µs|μs|ms|s|m|h)")


def parse_duration(text: str) -> Duration | None:
    """Parse `1h30m`, `-1.5s` as Go's time.ParseDuration does; None if the text is not a duration."""
    body = text.lstrip("+-") if text[:1] in ("+", "-") and text[1:2] not in ("+", "-") else text
    if body == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(body):
        match = _PART.match(body, position)
        if match is None or not (match[1] or match[2]):
            return None
        unit = _UNITS[match[3]]
        total += int(match[1] or "0") * unit
        if match[2]:
            total += int(match[2]) * unit // 10 ** len(match[2])
        position = match.end()
    if not body:
        return None
    signed = -total if text.startswith("-") else total
    return Duration(signed) if -_INT64 <= signed < _INT64 else None


_OFFSET = re.compile(r"([+-]?)([0-9]{2}):([0-9]{2})")


_ZONE_NAME = re.compile(r"[A-Za-z0-9_+-]{1,32}(?:/[A-Za-z0-9_+-]{1,32}){0,2}")


@lru_cache(maxsize=256)
def zone(name: str) -> tzinfo:
    """Return a zone by IANA name or by offset (`-08:00`). Raises CelError."""
    match = _OFFSET.fullmatch(name)
    if match is not None:
        hours, minutes = int(match[2]), int(match[3])
        if hours > 23 or minutes > 59:
            raise CelError(f"unknown time zone {name}")
        shift = timedelta(hours=hours, minutes=minutes)
        return timezone(-shift if match[1] == "-" else shift)
    try:
        if _ZONE_NAME.fullmatch(name) is None:
            raise KeyError(name)
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # There is no such name, or it is a directory.
        raise CelError(f"unknown time zone {name}") from error
