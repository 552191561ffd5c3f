"""Kubernetes quantities (`250m`, `1.5Gi`, `12e6`), exactly: parse, canonical form, compare, add.

An amount is an integer number of nanos, so only what Kubernetes rounds is rounded: fractions of a nano go up,
away from zero. The same texts repeat, so parsing is cached; only valid (short) texts enter the caches.
"""

import re
from decimal import Decimal
from enum import Enum

from msgspec import Struct

from alcove.api.short_cache import cache_short

MILLI = 10**6
ONE = 10**9

_DIGITS_MAX = 64
_EXPONENT_MAX = 64
_INT64_MAX = 2**63 - 1
_SPLIT = re.compile(r"([+-]?)([0-9]*)(?:(\.)([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)").fullmatch

FORMAT_ERROR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NUMBER_ERROR = "unable to parse numeric part of quantity"
SUFFIX_ERROR = "unable to parse quantity's suffix"


class QuantityError(ValueError):
    """The text is not a quantity; the message is the one Kubernetes uses."""


class QuantityFormat(Enum):
    """The family of suffixes that a quantity was written with and is shown with."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_NAMES = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_NAMES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class Quantity(Struct, frozen=True, eq=False):
    """An exact amount. Equal amounts are equal in whatever form they were written."""

    nano: int
    format: QuantityFormat = QuantityFormat.DECIMAL
    text: str = ""
    """The original text, where Kubernetes would keep it; empty: `str` computes the canonical form."""

    def __str__(self) -> str:
        return self.text or _show(self.nano, self.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __lt__(self, other: "Quantity") -> bool:
        return self.nano < other.nano

    def __le__(self, other: "Quantity") -> bool:
        return self.nano <= other.nano

    def __gt__(self, other: "Quantity") -> bool:
        return self.nano > other.nano

    def __ge__(self, other: "Quantity") -> bool:
        return self.nano >= other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __bool__(self) -> bool:
        return self.nano != 0

    def __neg__(self) -> "Quantity":
        return Quantity(-self.nano, self.format)

    def __add__(self, other: "Quantity") -> "Quantity":
        """Return the sum, in the left operand's format unless that operand is zero."""
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano - other.nano, self.format if self.nano else other.format)

    @property
    def milli(self) -> int:
        return _up(self.nano, MILLI)

    @property
    def value(self) -> int:
        """Return whole units, rounded up (away from zero)."""
        return _up(self.nano, ONE)

    @property
    def is_whole(self) -> bool:
        return self.nano % ONE == 0

    def rounded_up(self, unit: int) -> "Quantity":
        """Round to a multiple of `unit` nanos, away from zero."""
        if self.nano % unit == 0:
            return self
        return Quantity(_up(self.nano, unit) * unit, self.format)


ZERO = Quantity(0)


def _up(nano: int, unit: int) -> int:
    return -(-nano // unit) if nano >= 0 else nano // unit


@cache_short(4096)
def parse(text: str) -> Quantity:
    """Parse a quantity. Raises QuantityError with Kubernetes' message."""
    parts = _SPLIT(text)
    if parts is None or not text:
        raise QuantityError(FORMAT_ERROR)
    sign, whole, _, fraction, suffix = parts.groups()
    whole, fraction = whole.lstrip("0") or "0", fraction or ""
    base, exponent, format = _interpret(suffix)
    if not parts[2] + fraction:
        # Kubernetes' parser accepts "", "-" and "." before a suffix as zero; its own regex does not.
        raise QuantityError(FORMAT_ERROR)
    if len(whole) + len(fraction) > _DIGITS_MAX:
        raise QuantityError(NUMBER_ERROR)
    digits = whole + fraction
    nano = _nanos(int(digits), base, exponent, len(fraction))
    if format is QuantityFormat.BINARY:
        nano = min(nano, _INT64_MAX * ONE)
        if 0 < nano < ONE:
            format = QuantityFormat.DECIMAL
    keeps_text = _keeps_text(digits, exponent, len(fraction), format)
    return Quantity(-nano if sign == "-" else nano, format, text if keeps_text else "")


def _interpret(suffix: str) -> tuple[int, int, QuantityFormat]:
    if suffix in _DECIMAL_SUFFIXES:
        return 10, _DECIMAL_SUFFIXES[suffix], QuantityFormat.DECIMAL
    if suffix in _BINARY_SUFFIXES:
        return 2, _BINARY_SUFFIXES[suffix], QuantityFormat.BINARY
    if suffix[0] in "eE" and re.fullmatch("[-+]?[0-9]{1,9}", suffix[1:]):
        exponent = int(suffix[1:])
        if exponent <= _EXPONENT_MAX:
            return 10, exponent, QuantityFormat.EXPONENT
    raise QuantityError(SUFFIX_ERROR)


def _nanos(digits: int, base: int, exponent: int, fraction_length: int) -> int:
    if base == 2:
        return _up((digits << exponent) * ONE, 10**fraction_length)
    power = exponent - fraction_length + 9
    if power >= 0:
        return digits * int(10**power)
    return _up(digits, 10 ** min(-power, _DIGITS_MAX + 1))


def _keeps_text(digits: str, exponent: int, fraction_length: int, format: QuantityFormat) -> bool:
    """Whether Kubernetes shows such a text as it was written, because it is (nearly) canonical."""
    if format is QuantityFormat.BINARY:
        fits = len(digits) + exponent * 3 // 10 <= 14
        return fits and not fraction_length and int(digits) & 7 != 0
    scale = exponent - fraction_length
    if len(digits) > 18 or scale < -9 or scale % 3:
        return False
    return not digits.endswith("000") and not digits.startswith("0")


def _show(nano: int, format: QuantityFormat) -> str:
    if nano == 0:
        return "0"
    if format is QuantityFormat.BINARY and abs(nano) >= 1024 * ONE and nano % ONE == 0:
        return _show_binary(nano // ONE)
    amount, exponent = nano, -9
    while amount % 1000 == 0 and (format is QuantityFormat.EXPONENT or exponent < 18):
        amount //= 1000
        exponent += 3
    if format is QuantityFormat.EXPONENT:
        return f"{amount}e{exponent}" if exponent else str(amount)
    return f"{amount}{_DECIMAL_NAMES[exponent]}"


def _show_binary(amount: int) -> str:
    power = 0
    while amount % 1024 == 0 and power < 6:
        amount //= 1024
        power += 1
    return f"{amount}{_BINARY_NAMES[power]}"


def of(value: str | int | float) -> Quantity:
    """Return the quantity of a decoded JSON value: a string or a number."""
    if isinstance(value, str):
        return parse(value.strip())
    if isinstance(value, int):
        return parse(str(value))
    text = format(Decimal(repr(value)), "f")
    return parse(text.rstrip("0").rstrip(".") if "." in text else text)


def canonical(value: str | int | float) -> str:
    """Return the form that Kubernetes stores: `1000m` is `1`, `1024Ki` is `1Mi`, `0.5` is `500m`."""
    return str(of(value))


def milli(value: str | int | float) -> int:
    """Return thousandths, rounded up: the unit of CPU amounts."""
    return of(value).milli


def whole(value: str | int | float) -> int:
    """Return whole units, rounded up: the unit of bytes and counts."""
    return of(value).value
