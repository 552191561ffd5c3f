"""Kubernetes quantities (`250m`, `1.5Gi`, `12e6`), exactly: parse, canonical form, compare, add.

An amount is an integer number of nanos, so nothing is ever rounded but what Kubernetes rounds: what
is finer than a nano goes up, away from zero. Texts recur, so parsing is cached; only good (short)
texts enter the caches.
"""

import re
from decimal import Decimal
from enum import Enum
from functools import lru_cache

from msgspec import Struct

NANO = 1
MICRO = 10**3
MILLI = 10**6
ONE = 10**9

_DIGITS_MAX = 64
_EXPONENT_MAX = 64
_INT64_MAX = 2**63 - 1
_SPLIT = re.compile(r"([+-]?)([0-9]*)(?:(\.)([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)").fullmatch

FORMAT_FAULT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NUMBER_FAULT = "unable to parse numeric part of quantity"
SUFFIX_FAULT = "unable to parse quantity's suffix"


class QuantityError(ValueError):
    """A text that is no quantity; the message is Kubernetes' own."""


class QuantityFormat(Enum):
    """The family of suffixes a quantity was written with, and is shown with."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_NAMES = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_NAMES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class Quantity(Struct, frozen=True, eq=False):
    """An exact amount. Equal amounts are equal, however they were written."""

    nano: int
    format: QuantityFormat = QuantityFormat.DECIMAL
    text: str = ""
    """As it was written, where Kubernetes would keep that; else empty: `str` makes the canonical form."""

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
        """The sum, in the left side's format unless that is zero."""
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano - other.nano, self.format if self.nano else other.format)

    @property
    def milli(self) -> int:
        return _up(self.nano, MILLI)

    @property
    def value(self) -> int:
        """Whole units, rounded up (away from zero)."""
        return _up(self.nano, ONE)

    @property
    def is_whole(self) -> bool:
        return self.nano % ONE == 0

    def rounded_up(self, unit: int) -> "Quantity":
        """To a multiple of `unit` nanos, away from zero."""
        if self.nano % unit == 0:
            return self
        return Quantity(_up(self.nano, unit) * unit, self.format)


ZERO = Quantity(0)


def _up(nano: int, unit: int) -> int:
    return -(-nano // unit) if nano >= 0 else nano // unit


@lru_cache(maxsize=4096)
def parse(text: str) -> Quantity:
    """The quantity of a text; QuantityError with Kubernetes' message where it is none."""
    parts = _SPLIT(text)
    if parts is None or not text:
        raise QuantityError(FORMAT_FAULT)
    sign, whole, _, fraction, suffix = parts.groups()
    whole, fraction = whole.lstrip("0") or "0", fraction or ""
    base, exponent, format = _interpret(suffix)
    if not parts[2] + fraction:
        # Kubernetes' parser lets "", "-" and "." before a suffix pass as zero, its own regex does not.
        raise QuantityError(FORMAT_FAULT)
    if len(whole) + len(fraction) > _DIGITS_MAX:
        raise QuantityError(NUMBER_FAULT)
    digits = whole + fraction
    nano = _nanos(int(digits), base, exponent, len(fraction))
    if format is QuantityFormat.BINARY:
        nano = min(nano, _INT64_MAX * ONE)
        if 0 < nano < ONE:
            format = QuantityFormat.DECIMAL
    kept = _is_kept(digits, exponent, len(fraction), format)
    return Quantity(-nano if sign == "-" else nano, format, text if kept else "")


def _interpret(suffix: str) -> tuple[int, int, QuantityFormat]:
    if suffix in _DECIMAL_SUFFIXES:
        return 10, _DECIMAL_SUFFIXES[suffix], QuantityFormat.DECIMAL
    if suffix in _BINARY_SUFFIXES:
        return 2, _BINARY_SUFFIXES[suffix], QuantityFormat.BINARY
    if suffix[0] in "eE" and re.fullmatch("[-+]?[0-9]{1,9}", suffix[1:]):
        exponent = int(suffix[1:])
        if exponent <= _EXPONENT_MAX:
            return 10, exponent, QuantityFormat.EXPONENT
    raise QuantityError(SUFFIX_FAULT)


def _nanos(digits: int, base: int, exponent: int, fraction_length: int) -> int:
    if base == 2:
        return _up((digits << exponent) * ONE, 10**fraction_length)
    power = exponent - fraction_length + 9
    if power >= 0:
        return digits * int(10**power)
    return _up(digits, 10 ** min(-power, _DIGITS_MAX + 1))


def _is_kept(digits: str, exponent: int, fraction_length: int, format: QuantityFormat) -> bool:
    """Whether Kubernetes shows such a text as it was written: it is (nearly) canonical already."""
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
    """The quantity of a decoded JSON value: a string, or a bare number."""
    if isinstance(value, str):
        return parse(value.strip())
    if isinstance(value, int):
        return parse(str(value))
    text = format(Decimal(repr(value)), "f")
    return parse(text.rstrip("0").rstrip(".") if "." in text else text)


def canonical(value: str | int | float) -> str:
    """As Kubernetes stores and shows it: `1000m` is `1`, `1024Ki` is `1Mi`, `0.5` is `500m`."""
    return str(of(value))


def milli(value: str | int | float) -> int:
    """Thousandths, rounded up: what CPUs are counted in."""
    return of(value).milli


def whole(value: str | int | float) -> int:
    """Whole units, rounded up: what bytes and pods are counted in."""
    return of(value).value


def faults(value: str | int | float) -> str:
    """What is wrong with a quantity, empty if nothing."""
    try:
        of(value)
    except QuantityError as error:
        return str(error)
    return ""
