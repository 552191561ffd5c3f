"""`"%s has %d".format([…])`: the clauses of cel-go's string formatting, as Kubernetes enables it."""

import json
import math
import re
from collections.abc import Callable
from typing import Any

from alcove.api.cel.budget import text_cost
from alcove.api.cel.declarations import Library
from alcove.api.cel.errors import CelError
from alcove.api.cel.library.numbers import double_text
from alcove.api.cel.times import Duration, Timestamp
from alcove.api.cel.types import DYN, STRING, CelType, list_of
from alcove.api.cel.values import Uint, type_of, weight

FORMATTING = Library()
_PRECISION = 6
_PRECISION_MAX = 100
_CLAUSE = re.compile(r"%(?:(%)|(?:\.([0-9]*))?([A-Za-z])|)")


def _cost(template: str, values: list[Any]) -> int:
    return text_cost(len(template)) + sum(map(weight, values))


@FORMATTING.member("format", (STRING, list_of(DYN)), STRING, cost=_cost)
def _format(template: str, values: list[Any]) -> str:
    used = 0

    def fill(match: re.Match[str]) -> str:
        nonlocal used
        percent, precision, verb = match.groups()
        if percent:
            return "%"
        if not verb:
            raise CelError("unexpected end of string")
        if used >= len(values):
            raise CelError(f"index {used} out of range")
        value = values[used]
        used += 1
        return _clause(verb, precision, value)

    return _CLAUSE.sub(fill, template)


def _clause(verb: str, precision: str | None, value: Any) -> str:
    if verb in "fe":
        digits = int(precision[:4]) if precision else _PRECISION
        if digits > _PRECISION_MAX:
            raise CelError(f"precision {digits} exceeds the maximum of {_PRECISION_MAX}")
        return _floating(verb, digits, value)
    write = _VERBS.get(verb)
    if write is None:
        raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    return write(value)


def _floating(verb: str, digits: int, value: Any) -> str:
    if value in ("NaN", "Infinity", "-Infinity"):
        value = float(value)
    if type(value) is not float:
        name = "fixed-point" if verb == "f" else "scientific"
        raise CelError(_wrong(f"{name} clause can only be used on doubles", value))
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    if verb == "f":
        return f"{value:,.{digits}f}"
    mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
    return f"{mantissa}\u202f×\u202f10{_superscript(exponent)}"


_SUPERSCRIPT = str.maketrans("+-0123456789", "⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _superscript(exponent: str) -> str:
    return exponent.removeprefix("+").translate(_SUPERSCRIPT)


def _wrong(rule: str, value: Any) -> str:
    return f"error during formatting: {rule}, was given {type_of(value)}"


def _decimal(value: Any) -> str:
    if type(value) not in (int, Uint):
        raise CelError(_wrong("decimal clause can only be used on integers", value))
    return str(value)


def _binary(value: Any) -> str:
    if type(value) not in (int, Uint, bool):
        raise CelError(_wrong("only integers and bools can be formatted as binary", value))
    return f"{int(value):b}"


def _octal(value: Any) -> str:
    if type(value) not in (int, Uint):
        raise CelError(_wrong("octal clause can only be used on integers", value))
    return f"{int(value):o}"


def _hex(value: Any) -> str:
    if type(value) is str:
        return value.encode().hex()
    if type(value) is bytes:
        return value.hex()
    if type(value) not in (int, Uint):
        raise CelError(_wrong("only integers, byte buffers, and strings can be formatted as hex", value))
    return f"{int(value):x}"


def text(value: Any) -> str:
    """Format a value for `%s`."""
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case str():
            return value
        case float():
            return double_text(value)
        case bytes():
            return value.decode(errors="replace")
        case int() | Timestamp() | Duration():
            return str(value)
        case CelType():
            return value.name
        case list():
            return f"[{', '.join(map(_nested, value))}]"
        case dict():
            entries = sorted(f"{_nested(key)}:{_nested(each)}" for key, each in value.items())
            return f"{{{', '.join(entries)}}}"
    raise CelError(
        _wrong(
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
            value,
        )
    )


def _nested(value: Any) -> str:
    """Format a value inside a list or map, as CEL writes it."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bytes():
            return "b" + json.dumps(value.decode(errors="replace"), ensure_ascii=False)
        case float() if math.isfinite(value):
            return f"{value:.{_PRECISION}f}"
        case float():
            return f'"{text(value)}"'
        case Timestamp():
            return f'timestamp("{value}")'
        case Duration():
            return f'duration("{value}")'
    return text(value)


_VERBS: dict[str, Callable[[Any], str]] = {
    "s": text,
    "d": _decimal,
    "b": _binary,
    "o": _octal,
    "x": _hex,
    "X": lambda value: _hex(value).upper(),
}
