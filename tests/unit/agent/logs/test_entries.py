import pytest

from alcove.agent.logs.entries import LogEntry, parse, seconds_of, shown_time

TIME = b"2026-01-02T03:04:05.678901234+00:00"


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        (TIME + b" stdout F hello world", LogEntry(TIME, b"stdout", True, b"hello world")),
        (TIME + b" stderr P half a ", LogEntry(TIME, b"stderr", False, b"half a ")),
        (TIME + b" stdout F ", LogEntry(TIME, b"stdout", True, b"")),
        (b"", None),
        (b"half a line of a disk that was full", None),
        (TIME + b" stdwhat F text", None),
    ],
)
def test_lines_are_parsed(line: bytes, entry: LogEntry | None) -> None:
    assert parse(line) == entry


def test_times() -> None:
    assert shown_time(TIME) == b"2026-01-02T03:04:05.678901234Z"
    assert shown_time(b"2026-01-02T05:04:05+02:00") == b"2026-01-02T05:04:05+02:00"
    assert seconds_of(TIME) == pytest.approx(1_767_323_045.678901)
    assert seconds_of(b"no time") == 0.0
