"""Tables for people: aligned, and coloured only on a terminal."""

import json
import sys

import pytest

from alcove.cli import output
from alcove.cli.errors import fail
from alcove.cli.options import OutputFormat


def test_columns_are_aligned_as_kubectl_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(("NAME", "PHASE"), [("a", "Ready"), ("longer", "Pending")])
    assert capsys.readouterr().out == "NAME     PHASE\na        Ready\nlonger   Pending\n"


def test_nothing_is_said_to_people_and_not_to_programs(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_rows(("NAME",), [], OutputFormat.TABLE)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "No resources found\n")
    output.show_rows(("NAME",), [], OutputFormat.JSON)
    assert capsys.readouterr().out == "[]\n"


@pytest.mark.parametrize(
    ("is_terminal", "no_color", "coloured"), [(True, "", True), (True, "1", False), (False, "", False)]
)
def test_colours_are_for_terminals(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, no_color: str, coloured: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    assert ("\x1b[" in output.paint("Ready")) is coloured
    assert output.paint("whatever") == "whatever"


def test_what_a_terminal_would_obey_is_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    """Tenants write the messages of events, and much else that operators look at."""
    hostile = "a\x1b[2J\x9b31m\r\nb\u202e\x7f"
    output.show_rows(("NAME",), [(hostile,)], OutputFormat.TABLE)
    assert capsys.readouterr().out == "NAME\na\\x1b[2J\\x9b31m\\r\\nb\\u202e\\x7f\n"
    output.show_rows(("NAME",), [(hostile,)], OutputFormat.JSON)
    shown = capsys.readouterr().out
    assert not {"\x1b", "\x9b", "\x7f", "\r"} & set(shown)
    assert json.loads(shown) == [{"name": hostile}]
    item = {"kind": "Flow", "metadata": {"name": hostile, "tenant": hostile}}
    output.show_rows(("NAME",), [(hostile,)], OutputFormat.NAME)
    output.show([item], (), OutputFormat.NAME, with_tenant=True)
    fail(f"first {hostile}\nsecond")
    shown = "".join(capsys.readouterr())
    assert not {"\x1b", "\x9b", "\x7f", "\r", "\u202e"} & set(shown)
    assert "first a\\x1b[2J" in shown and "\nsecond" in shown
