"""Logging of every process: one line per record on standard error, as text or as JSON.

    2026-11-15T20:44:54.123Z WARNING agent "failed to update pod status; retrying" pod=acme/default/web error="…"

A record is a constant message plus fields (`extra=`). Values may be under a tenant's control, so no value can look
like a second line, a second field or a terminal sequence: whatever is not plain is quoted, and within quotes every
quote, backslash and unprintable character is escaped. Tracebacks follow in lines of their own, each indented.
"""

from __future__ import annotations

import faulthandler
import io
import json
import logging
import math
import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from types import TracebackType

from alcove.component import request_ids

VALUE_CHARACTERS_MAX = 4_096
TRACEBACK_CHARACTERS_MAX = 32_768
ITEMS_MAX = 100
DEPTH_MAX = 4
REQUEST_ID = "request_id"
_STANDARD = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {
    "message",
    "asctime",
    "taskName",
}
_RESERVED = frozenset({"time", "level", "component", "logger", "message", "exception"})
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+-]+")

Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]


class Level(Enum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Form(Enum):
    TEXT = "text"
    JSON = "json"


def configure(component: str, level: Level = Level.INFO, form: Form = Form.TEXT) -> None:
    """Set up logging for this process. An uncaught exception is logged too, in the same form; a crash of the interpreter
    writes where it happened."""
    handler = logging.StreamHandler()
    handler.setFormatter(TextFormatter(component) if form is Form.TEXT else JsonFormatter(component))
    handler.addFilter(add_request_id)
    logging.basicConfig(level=level.name, handlers=[handler], force=True)
    sys.excepthook = _log_uncaught
    with suppress(io.UnsupportedOperation):  # Standard error is no file, as in tests.
        faulthandler.enable()


class TextFormatter(logging.Formatter):
    def __init__(self, component: str) -> None:
        super().__init__()
        self._component = component

    def format(self, record: logging.LogRecord) -> str:
        message = quoted(_bounded(record.getMessage(), VALUE_CHARACTERS_MAX))
        tokens = [_time(record), record.levelname, self._component, message]
        tokens += [f"{name}={_text(value)}" for name, value in fields(record)]
        tokens.append(f"logger={_text(_logger(record))}")
        lines = [" ".join(tokens)]
        lines += [f"    {escaped(line)}" for line in _traceback(record).splitlines()]
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    def __init__(self, component: str) -> None:
        super().__init__()
        self._component = component

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Value] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "component": self._component,
            "logger": _logger(record),
            "message": _bounded(record.getMessage(), VALUE_CHARACTERS_MAX),
        }
        line |= {f"{name}_" if name in _RESERVED else name: value for name, value in fields(record)}
        if traceback := _traceback(record):
            line["exception"] = traceback
        return json.dumps(line)


def fields(record: logging.LogRecord) -> Iterator[tuple[str, Value]]:
    """Yield the record's extra fields as JSON-compatible values, each of bounded size."""
    for name, value in vars(record).items():
        if name not in _STANDARD:
            yield name, _simple(value, DEPTH_MAX)


def quoted(text: str) -> str:
    return f'"{escaped(text)}"'


def escaped(text: str) -> str:
    """Escape the text so that it cannot end its line or its quotes."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return "".join(map(_escaped_character, text))


def _escaped_character(character: str) -> str:
    if character in ('"', "\\"):
        return f"\\{character}"
    # Unprintable characters include line separators and bidirectional control characters.
    return character if character.isprintable() else ascii(character)[1:-1]


def _text(value: Value) -> str:
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) else quoted(value)
    if isinstance(value, list | dict):
        return quoted(_bounded(json.dumps(value, ensure_ascii=False), VALUE_CHARACTERS_MAX))
    return json.dumps(value)


def _simple(value: object, depth: int) -> Value:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth and isinstance(value, list | tuple | set | frozenset):
        return [_simple(each, depth - 1) for each in list(value)[:ITEMS_MAX]]
    if depth and isinstance(value, dict):
        items = list(value.items())[:ITEMS_MAX]
        return {_bounded(str(name), VALUE_CHARACTERS_MAX): _simple(each, depth - 1) for name, each in items}
    return _bounded(str(value), VALUE_CHARACTERS_MAX)


def _bounded(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else f"{text[:characters_max]}…"


def _logger(record: logging.LogRecord) -> str:
    return record.name.removeprefix("alcove.")


def _time(record: logging.LogRecord) -> str:
    second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{second}.{int(record.msecs):03d}Z"


def _traceback(record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[0] is None:
        return ""
    text = logging.Formatter().formatException(record.exc_info)
    if len(text) <= TRACEBACK_CHARACTERS_MAX:
        return text
    # Keep both ends: the beginning shows where the error comes from, the end shows the exception.
    half = TRACEBACK_CHARACTERS_MAX // 2
    return f"{text[:half]}\n…\n{text[-half:]}"


def add_request_id(record: logging.LogRecord) -> bool:
    """Logging filter: adds the current request's id to the record."""
    if (current := request_ids.current.get()) and not hasattr(record, REQUEST_ID):
        setattr(record, REQUEST_ID, current)
    return True


def _log_uncaught(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
        return
    log = logging.getLogger(__name__)
    log.critical("process failed; exiting", extra={"error": str(error)}, exc_info=(kind, error, traceback))
