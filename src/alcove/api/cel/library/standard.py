"""CEL's standard functions: signatures of operators, sizes, conversions, strings, times."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from alcove.api.cel import operators
from alcove.api.cel.budget import parse_cost, text_cost
from alcove.api.cel.declarations import Library
from alcove.api.cel.errors import CelError
from alcove.api.cel.library.numbers import double_text, to_double, to_int_from_double, to_uint_from_double
from alcove.api.cel.library.regex import pattern, pattern_cost
from alcove.api.cel.operators import to_int, to_uint
from alcove.api.cel.times import SECOND, Duration, Timestamp, parse_duration, parse_timestamp, zone
from alcove.api.cel.types import (
    BOOL,
    BYTES,
    COMPARABLE,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    A,
    B,
    CelType,
    list_of,
    map_of,
    type_of_type,
)
from alcove.api.cel.values import Uint, type_of

STANDARD = Library()
_function, _member = STANDARD.function, STANDARD.member
_LIST, _MAP = list_of(A), map_of(A, B)
_NUMBERS = (INT, UINT, DOUBLE)


def _planned(*_args: Any) -> Any:
    """Placeholder for operators whose closures the planner builds; only their signatures are used."""
    raise AssertionError("planned as a closure")


def _operators() -> None:
    _function("_?_:_", (BOOL, A, A), A)(_planned)
    _function("!_", (BOOL,), BOOL)(_planned)
    for name in ("_==_", "_!=_"):
        _function(name, (A, A), BOOL)(_planned)
    for name in ("_<_", "_<=_", "_>_", "_>=_"):
        for of in COMPARABLE:
            _function(name, (of, of), BOOL)(_planned)
        for one in _NUMBERS:
            for other in _NUMBERS:
                if one is not other:
                    _function(name, (one, other), BOOL)(_planned)
    _arithmetic()
    _function("_[_]", (_LIST, INT), A)(operators.index)
    _function("_[_]", (_MAP, A), B)(operators.index)
    _function("@in", (A, _LIST), BOOL)(operators.is_in)
    _function("@in", (A, _MAP), BOOL)(operators.is_in)


def _arithmetic() -> None:
    for name in ("_+_", "_-_", "_*_", "_/_"):
        for of in _NUMBERS:
            _function(name, (of, of), of)(_planned)
    for of in (INT, UINT):
        _function("_%_", (of, of), of)(_planned)
    for of in (INT, DOUBLE):
        _function("-_", (of,), of)(_planned)
    for of in (BYTES, STRING, DURATION, _LIST):
        _function("_+_", (of, of), of)(_planned)
    _function("_+_", (TIMESTAMP, DURATION), TIMESTAMP)(_planned)
    _function("_+_", (DURATION, TIMESTAMP), TIMESTAMP)(_planned)
    _function("_-_", (DURATION, DURATION), DURATION)(_planned)
    _function("_-_", (TIMESTAMP, TIMESTAMP), DURATION)(_planned)
    _function("_-_", (TIMESTAMP, DURATION), TIMESTAMP)(_planned)


_operators()


# Sizes and types.

for _sized in (BYTES, STRING, _LIST, _MAP):
    _function("size", (_sized,), INT)(len)
    _member("size", (_sized,), INT)(len)


@_function("type", (A,), type_of_type(A))
def _type(value: Any) -> CelType:
    return type_of(value)


@_function("dyn", (A,), DYN)
def _identity(value: Any) -> Any:
    return value


for _name, _same in (
    ("bool", BOOL),
    ("bytes", BYTES),
    ("double", DOUBLE),
    ("duration", DURATION),
    ("int", INT),
    ("string", STRING),
    ("timestamp", TIMESTAMP),
    ("uint", UINT),
):
    _function(_name, (_same,), _same)(_identity)


# Conversions.


@_function("bool", (STRING,), BOOL)
def _bool(text: str) -> bool:
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise CelError("type conversion error from 'string' to 'bool'")


@_function("bytes", (STRING,), BYTES, cost=lambda text: text_cost(len(text)))
def _bytes(text: str) -> bytes:
    return text.encode()


@_function("string", (BYTES,), STRING, cost=lambda data: text_cost(len(data)))
def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from error


_function("string", (BOOL,), STRING)(lambda value: "true" if value else "false")
_function("string", (DOUBLE,), STRING)(double_text)
for _shown in (INT, UINT, DURATION, TIMESTAMP):
    _function("string", (_shown,), STRING)(str)

_function("double", (INT,), DOUBLE)(float)
_function("double", (UINT,), DOUBLE)(float)
_function("double", (STRING,), DOUBLE)(to_double)

_function("int", (UINT,), INT)(lambda value: to_int(int(value)))
_function("int", (DOUBLE,), INT)(to_int_from_double)
_function("int", (DURATION,), INT)(lambda span: span.nanos)
_function("int", (TIMESTAMP,), INT)(lambda moment: moment.nanos // SECOND)
_function("uint", (INT,), UINT)(to_uint)
_function("uint", (DOUBLE,), UINT)(to_uint_from_double)


@_function("int", (STRING,), INT)
def _int(text: str) -> int:
    return to_int(_digits(text, "int"))


@_function("uint", (STRING,), UINT)
def _uint(text: str) -> Uint:
    return to_uint(_digits(text, "uint"))


def _digits(text: str, target: str) -> int:
    unsigned = text[1:] if target == "int" and text[:1] in ("-", "+") else text
    if not unsigned.isascii() or not unsigned.isdigit() or len(unsigned) > 30:
        raise CelError(f"type conversion error from 'string' to '{target}'")
    return int(text)


@_function("duration", (STRING,), DURATION, cost=parse_cost)
def _duration(text: str) -> Duration:
    span = parse_duration(text)
    if span is None:
        raise CelError("type conversion error from 'string' to 'google.protobuf.Duration'")
    return span


@_function("timestamp", (STRING,), TIMESTAMP, cost=parse_cost)
def _timestamp(text: str) -> Timestamp:
    moment = parse_timestamp(text)
    if moment is None:
        raise CelError("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    return moment


_function("timestamp", (INT,), TIMESTAMP)(lambda seconds: Timestamp(seconds * SECOND))


# Strings.

_member(
    "contains", (STRING, STRING), BOOL, cost=lambda text, part: text_cost(len(text)) * text_cost(len(part))
)(str.__contains__)
_member("startsWith", (STRING, STRING), BOOL, cost=lambda _text, part: text_cost(len(part)))(str.startswith)
_member("endsWith", (STRING, STRING), BOOL, cost=lambda _text, part: text_cost(len(part)))(str.endswith)


@_function("matches", (STRING, STRING), BOOL, cost=pattern_cost)
@_member("matches", (STRING, STRING), BOOL, cost=pattern_cost)
def _matches(text: str, regex: str) -> bool:
    return pattern(regex).search(text) is not None


# Times.


def _zone_cost(_moment: Timestamp, _where: str) -> int:
    return 2_000  # An unknown zone is searched for on the disk every time.


def _from_timestamp(name: str, part: Callable[[datetime], int]) -> None:
    _member(name, (TIMESTAMP,), INT)(lambda moment: part(moment.at(UTC)))
    _member(name, (TIMESTAMP, STRING), INT, cost=_zone_cost)(
        lambda moment, where: part(moment.at(zone(where)))
    )


_from_timestamp("getFullYear", lambda at: at.year)
_from_timestamp("getMonth", lambda at: at.month - 1)
_from_timestamp("getDayOfYear", lambda at: at.timetuple().tm_yday - 1)
_from_timestamp("getDayOfMonth", lambda at: at.day - 1)
_from_timestamp("getDate", lambda at: at.day)
_from_timestamp("getDayOfWeek", lambda at: at.isoweekday() % 7)
_from_timestamp("getHours", lambda at: at.hour)
_from_timestamp("getMinutes", lambda at: at.minute)
_from_timestamp("getSeconds", lambda at: at.second)
_member("getMilliseconds", (TIMESTAMP,), INT)(lambda moment: moment.nanos % SECOND // 1_000_000)
_member("getMilliseconds", (TIMESTAMP, STRING), INT)(
    lambda moment, _where: moment.nanos % SECOND // 1_000_000
)


def _toward_zero(span: Duration, unit: int) -> int:
    return span.nanos // unit if span.nanos >= 0 else -(-span.nanos // unit)


_member("getHours", (DURATION,), INT)(lambda span: _toward_zero(span, 3600 * SECOND))
_member("getMinutes", (DURATION,), INT)(lambda span: _toward_zero(span, 60 * SECOND))
_member("getSeconds", (DURATION,), INT)(lambda span: _toward_zero(span, SECOND))
_member("getMilliseconds", (DURATION,), INT)(lambda span: _toward_zero(span, 1_000_000) % 1000)
