"""Checks of single values: lengths, patterns, formats, ranges, multiples."""

from collections.abc import Callable
from typing import Any

from alcove.api.fields import invalid, too_long, type_invalid
from alcove.api.regex import RegexError, compile_regex
from alcove.api.schema.error_sink import NOWHERE, Check, ErrorSink
from alcove.api.schema.formats import string_format

Schema = dict[str, Any]
_INT64 = (-(2**63), 2**63 - 1)
_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": _INT64}


def string_checks(schema: Schema) -> tuple[Check, ...]:
    """Return checks of length and pattern (only the first error is reported), then of the format."""
    steps: list[Check] = []
    if any(keyword in schema for keyword in ("maxLength", "minLength", "pattern")):
        steps.append(_text_check(schema.get("maxLength"), schema.get("minLength"), schema.get("pattern", "")))
    format = schema.get("format", "")
    is_good = string_format(format) if schema.get("type", "string") == "string" else None
    if is_good is not None:
        steps.append(_format_check(format, is_good))
    return tuple(steps)


def _text_check(length_max: int | None, length_min: int | None, pattern: str) -> Check:
    search = _searcher(pattern) if pattern else None

    def check(value: Any, _old: Any, path: str, sink: ErrorSink) -> None:
        if length_max is not None and len(value) > length_max:
            sink.append(too_long(path, length_max))
        elif length_min is not None and len(value) < length_min:
            sink.append(invalid(path, value, f"{path} in body should be at least {length_min} chars long"))
        elif search is not None and not search(value):
            sink.append(invalid(path, value, f"{path} in body should match '{pattern}'"))

    return check


def _searcher(pattern: str) -> Callable[[str], Any]:
    """Return a search function for the pattern; compiled on first use, because not every schema is used."""
    compiled: list[Any] = []

    def search(value: str) -> Any:
        if not compiled:
            try:
                compiled.append(compile_regex(pattern).search)
            except RegexError:
                compiled.append(lambda _value: None)
        return compiled[0](value)

    return search


def _format_check(format: str, is_good: Callable[[str], bool]) -> Check:
    def check(value: Any, _old: Any, path: str, sink: ErrorSink) -> None:
        if not is_good(value):
            sink.append(
                type_invalid(path, value, f"{path} in body must be of type {format}: {_quoted(value)}")
            )

    return check


def _quoted(value: str) -> str:
    import orjson

    return orjson.dumps(value).decode()


def number_checks(schema: Schema) -> tuple[Check, ...]:
    steps: list[Check] = []
    if schema.get("type") == "integer":
        steps.append(_range_check(schema.get("format", "")))
    if schema.get("multipleOf") is not None:
        steps.append(_multiple_check(schema["multipleOf"]))
    if schema.get("minimum") is not None:
        steps.append(_bound_check(schema["minimum"], -1, bool(schema.get("exclusiveMinimum"))))
    if schema.get("maximum") is not None:
        steps.append(_bound_check(schema["maximum"], 1, bool(schema.get("exclusiveMaximum"))))
    return tuple(steps)


def _range_check(format: str) -> Check:
    lowest, highest = _RANGES.get(format, _INT64)
    message = f"with format {format}" if format in _RANGES else "(default format)"

    def check(value: Any, _old: Any, path: str, sink: ErrorSink) -> None:
        if not lowest <= value <= highest:
            sink.append(invalid(NOWHERE, "", f"Checked value must be of type integer {message} in {path}"))

    return check


def _bound_check(bound: float, sign: int, exclusive: bool) -> Check:
    """Return a check of a bound. Integers are compared with the truncated bound, as in Kubernetes."""
    comparison = "less than" if sign > 0 else "greater than"
    comparison += "" if exclusive else " or equal to"

    def check(value: Any, _old: Any, path: str, sink: ErrorSink) -> None:
        limit = int(bound) if type(value) is int else bound
        beyond = (value - limit) * sign
        if beyond > 0 or (exclusive and beyond == 0):
            sink.append(invalid(path, value, f"{path} in body should be {comparison} {_shown(limit)}"))

    return check


def _multiple_check(factor: float) -> Check:
    def check(value: Any, _old: Any, path: str, sink: ErrorSink) -> None:
        unit = int(factor) if type(value) is int else factor
        if unit <= 0:
            message = f"factor MultipleOf declared for {path} must be positive: {_shown(unit)}"
            sink.append(invalid(path, unit, message))
        elif not _is_multiple(value, unit):
            sink.append(invalid(path, value, f"{path} in body should be a multiple of {_shown(unit)}"))

    return check


def _is_multiple(value: float, unit: float) -> bool:
    if type(value) is int and type(unit) is int:
        return value % unit == 0
    quotient = value / unit
    return abs(quotient - round(quotient)) < 1e-9


def _shown(number: float) -> str:
    """Format a number as Go does: no `.0` on whole numbers."""
    return str(int(number)) if float(number).is_integer() and abs(number) < 1e21 else repr(number)
