"""Log lines: one per record, whatever a tenant put into a field."""

import json
import logging
import re
import signal
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.component import request_ids
from alcove.component.logs import JsonFormatter, TextFormatter

HOSTILE = [
    "plain",
    "",
    "two words",
    'a" b="c',
    "a\nb",
    'a\r\n2026-11-15T20:44:54.123Z INFO agent "forged"',
    "back\\slash",
    "\x1b[31mred",
    "\x7f\x85\u2028\u202e",
    "\ud800",
    "level=error",
]
_FIELD = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|[^\s"]+)')


def record(message: str = "failed to update pod status", **fields: Any) -> logging.LogRecord:
    logger = logging.getLogger("alcove.agent.pods")
    return logger.makeRecord(logger.name, logging.WARNING, "x.py", 1, message, (), None, None, fields)


def test_a_line_of_text() -> None:
    line = TextFormatter("agent").format(
        record(pod="acme/default/web", tries=3, ready=False, error="no such pod", none=None)
    )
    assert re.fullmatch(
        r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING agent "failed to update pod status" '
        r'pod=acme/default/web tries=3 ready=false error="no such pod" none=null logger=agent\.pods',
        line,
    )


def test_a_line_of_json() -> None:
    line = json.loads(JsonFormatter("agent").format(record(pod="web", tries=3, level="x", nodes=("a", 1))))
    assert re.fullmatch(r"\d{4}-.*Z", line.pop("time"))
    assert line == {
        "level": "warning",
        "component": "agent",
        "logger": "agent.pods",
        "message": "failed to update pod status",
        "pod": "web",
        "tries": 3,
        "level_": "x",
        "nodes": ["a", 1],
    }


@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_value_stays_within_its_field(value: str) -> None:
    text = TextFormatter("agent").format(record(before=1, error=value, names=[value], message_of={value: 1}))
    assert text.isprintable()
    _, _, rest = text.partition('status" ')
    fields = _FIELD.findall(rest)
    assert [name for name, _ in fields] == ["before", "error", "names", "message_of", "logger"]
    assert " ".join(f"{name}={result}" for name, result in fields) == rest
    line = JsonFormatter("agent").format(record(error=value))
    assert line.isascii() and line.isprintable() and json.loads(line)["error"] == value


@settings(deadline=None)
@given(st.text())
def test_no_text_makes_a_second_line_or_field(value: str) -> None:
    text = TextFormatter("agent").format(record(error=value))
    assert text.isprintable()
    _, _, rest = text.partition('status" ')
    assert [name for name, _ in _FIELD.findall(rest)] == ["error", "logger"]


def test_a_traceback_with_a_hostile_message_cannot_look_like_a_line() -> None:
    try:
        raise ValueError('x\n2026-11-15T20:44:54.123Z INFO agent "forged"\x1b[2J')
    except ValueError:
        failed = record()
        failed.exc_info = sys.exc_info()
    first, *others = TextFormatter("agent").format(failed).split("\n")
    assert others and all(line.startswith("    ") and line.isprintable() for line in others)
    assert "forged" not in first
    assert "forged" in json.loads(JsonFormatter("agent").format(failed))["exception"]


def test_values_are_bounded() -> None:
    long = record(error="x" * 1_000_000, names=["y" * 10_000] * 1_000)
    assert len(TextFormatter("agent").format(long)) < 20_000
    assert len(JsonFormatter("agent").format(long)) < 2_000_000


def run(code: str) -> subprocess.CompletedProcess[str]:
    before = "import logging; from alcove.component import logs, request_ids\n"
    return subprocess.run([sys.executable, "-c", before + code], capture_output=True, text=True, timeout=30)


def test_the_request_id_is_in_every_line_of_its_request() -> None:
    done = run(
        "logs.configure('agent', logs.Level.DEBUG, logs.Form.JSON)\n"
        "log = logging.getLogger('alcove.x')\n"
        "log.debug('outside')\n"
        "with request_ids.scope('abc'): log.info('inside')"
    )
    outside, inside = (json.loads(line) for line in done.stderr.splitlines())
    assert "request_id" not in outside and inside["request_id"] == "abc"
    assert not request_ids.current.get()


def test_records_below_the_level_are_left_out() -> None:
    done = run(
        "logs.configure('agent', logs.Level.WARNING)\n"
        "logging.getLogger('alcove.x').info('quiet'); logging.getLogger('alcove.x').warning('loud')"
    )
    assert "quiet" not in done.stderr and "loud" in done.stderr


def test_an_exception_that_nobody_catches_is_a_log_line_and_an_exit_code() -> None:
    done = run("logs.configure('agent', logs.Level.ERROR, logs.Form.JSON)\nraise RuntimeError('no\\nluck')")
    (line,) = (json.loads(line) for line in done.stderr.splitlines())
    assert done.returncode == 1
    assert line["message"] == "process failed; exiting" and line["error"] == "no\nluck"
    assert line["exception"].startswith("Traceback")


def test_a_crash_of_the_interpreter_says_where_it_happened() -> None:
    done = run("logs.configure('agent')\nimport os\nos.abort()")
    assert done.returncode == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in done.stderr and "line " in done.stderr
