"""Conversion of doubles to text and to integers, as Go prints, parses and truncates them."""

import math
import re

from alcove.api.cel.errors import CelError
from alcove.api.cel.operators import to_int, to_uint
from alcove.api.cel.values import Uint

_DOUBLE = re.compile(r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,1100})?|\.[0-9]{1,1100})(?:[eE][+-]?[0-9]{1,5})?")
_NAMED = {
    "nan": math.nan,
    "inf": math.inf,
    "+inf": math.inf,
    "-inf": -math.inf,
    "infinity": math.inf,
    "+infinity": math.inf,
    "-infinity": -math.inf,
}


def to_double(text: str) -> float:
    named = _NAMED.get(text.lower())
    if named is not None:
        return named
    if _DOUBLE.fullmatch(text) is None:
        raise CelError("type conversion error from 'string' to 'double'")
    value = float(text)
    if math.isinf(value):
        raise CelError("type conversion error from 'string' to 'double'")
    return value


def double_text(value: float) -> str:
    """Return the shortest text that reads back as `value`, with exponents as Go's %g writes them."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    if exponent:
        power = int(exponent)
        if -5 < power < 21:
            return f"{value:.0f}" if power > 0 else f"{value:.{-power + len(mantissa)}f}".rstrip("0")
        mantissa = mantissa.removesuffix(".0")
        return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02}"
    return text.removesuffix(".0")


def to_int_from_double(value: float) -> int:
    # Exclusive: the nearest double to the largest int64 is one above it.
    if math.isnan(value) or not -(2.0**63) < value < 2.0**63:
        raise CelError("integer overflow")
    return to_int(int(value))


def to_uint_from_double(value: float) -> Uint:
    if math.isnan(value) or not 0 <= value < 2.0**64:
        raise CelError("unsigned integer overflow")
    return to_uint(int(value))
