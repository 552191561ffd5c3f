"""RFC 3339 timestamps as Kubernetes decodes them from a body, and encodes them.

`Time` has whole seconds, `MicroTime` six digits, both in UTC.
"""

import re
from datetime import UTC, datetime

_LAYOUT = "2006-01-02T15:04:05Z07:00"
"""Go describes a layout by its reference time; error messages contain it."""
_LAYOUT_MICRO = "2006-01-02T15:04:05.000000Z07:00"

_IN_UTC = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?Z").fullmatch
_PARTS = (
    ("2006", re.compile("[0-9]{4}")),
    ("-", re.compile("-")),
    ("01", re.compile("[0-9]{2}")),
    ("-", re.compile("-")),
    ("02", re.compile("[0-9]{2}")),
    ("T", re.compile("T")),
    ("15", re.compile("[0-9]{2}")),
    (":", re.compile(":")),
    ("04", re.compile("[0-9]{2}")),
    (":", re.compile(":")),
    ("05", re.compile(r"[0-9]{2}(?:[.,][0-9]+)?")),
    ("Z07:00", re.compile(r"Z|[-+][0-9]{2}:[0-9]{2}")),
)


def canonical(text: str, *, micro: bool) -> str:
    """Return the timestamp as it is stored. Raises ValueError with Go's message."""
    match = _IN_UTC(text)
    if match is None or (match[1] is None) == micro:
        return _rewrite(text, micro)
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(_out_of_range(text)) from None
    return text


def _rewrite(text: str, micro: bool) -> str:
    _check_layout(text, _LAYOUT_MICRO if micro else _LAYOUT)
    try:
        # Python accepts at most six fractional digits; Go accepts nine, of which six are kept here.
        moment = datetime.fromisoformat(re.sub(r"[.,]([0-9]{6})[0-9]+", r".\1", text)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(_out_of_range(text)) from None
    whole = moment.replace(tzinfo=None).isoformat(timespec="seconds")
    return f"{whole}.{moment.microsecond:06d}Z" if micro else f"{whole}Z"


def _check_layout(text: str, layout: str) -> None:
    at = 0
    for name, pattern in _PARTS:
        match = pattern.match(text, at)
        if match is None:
            rest = text[at:]
            raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{name}"')
        at = match.end()
    if at < len(text):
        raise ValueError(f'parsing time "{text}": extra text: "{text[at:]}"')


def _out_of_range(text: str) -> str:
    """Return which number is out of range; the layout is already known to be valid."""
    month, hour, minute, second = (int(text[at : at + 2]) for at in (5, 11, 14, 17))
    ranges = (
        ("month", 1 <= month <= 12),
        ("hour", hour < 24),
        ("minute", minute < 60),
        ("second", second < 60),
    )
    wrong = next((name for name, fits in ranges if not fits), "day")
    return f'parsing time "{text}": {wrong} out of range'
