"""Syntax: what does not parse, where it is marked, and how deep an expression may nest."""

import time

import pytest

from alcove.api.cel.errors import CompileError
from alcove.api.cel.parser import NESTING_MAX, parse


@pytest.mark.parametrize(
    ("source", "place", "message"),
    [
        ("1 +", "1:4", "Syntax error: mismatched input '<EOF>' expecting"),
        ("a.b c", "1:5", "Syntax error: mismatched input 'c' expecting <EOF>"),
        ("(1", "1:3", "Syntax error: mismatched input '<EOF>' expecting ')'"),
        ("[1, , 2]", "1:5", "Syntax error: mismatched input ',' expecting"),
        ("f(1,)", "1:5", "Syntax error: mismatched input ')' expecting"),
        ("a.1", "1:2", "Syntax error"),
        ("a $ b", "1:3", "Syntax error: token recognition error at: '$'"),
        ("'open", "1:1", "Syntax error: token recognition error at: '''"),
        ("!-a", "1:3", "Syntax error: mismatched input 'a' expecting"),
        ("for", "1:1", "reserved identifier: for"),
        ("namespace + 1", "1:1", "reserved identifier: namespace"),
        ("9223372036854775808", "1:1", "invalid int literal"),
        ("18446744073709551616u", "1:1", "invalid uint literal"),
        ("1" * 3000, "1:1", "invalid int literal"),
        ("'\\q'", "1:1", "Syntax error"),
        ("has(a)", "1:5", "invalid argument to has() macro"),
        ("a.all(1, true)", "1:7", "argument must be a simple name"),
        ("a.all(x, x, true)", "1:10", "duplicate variable name: x"),
        ("a.map(__result__, 1)", "1:7", "iteration variable overwrites accumulator variable"),
        ("1 +\n  + 2", "2:3", "Syntax error"),
    ],
)
def test_syntax_errors_point_at_the_place(source: str, place: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        parse(source)
    assert str(caught.value).startswith(f"ERROR: <input>:{place}: {message}")


def test_an_error_shows_the_line_and_a_mark() -> None:
    with pytest.raises(CompileError) as caught:
        parse("true &&\n  'é' + $")
    assert str(caught.value) == (
        "ERROR: <input>:2:9: Syntax error: token recognition error at: '$'\n |   'é' + $\n | ...．....^"
    )


@pytest.mark.parametrize(
    "source",
    [
        "a.namespace",
        "a.`x-y`.b",
        "[1, 2,]",
        "{'a': 1,}",
        "a // comment\n && b",
        "a.b.C{d: 1, ?e: f}",
        "1.5.foo()",
        "x ? y : z ? 1 : 2",
        "''.size() == 0",
        "a.all(x, true).b",
    ],
)
def test_parses(source: str) -> None:
    parse(source)


@pytest.mark.parametrize(
    "source",
    [
        "(" * 3000 + "1" + ")" * 3000,
        "[" * 3000 + "]" * 3000,
        "{1:" * 3000 + "1" + "}" * 3000,
        "a[" * 3000 + "0" + "]" * 3000,
        "f(" * 3000 + "0" + ")" * 3000,
        "a ? b : " * 2000 + "c",
        "a" + ".b" * 3000,
        " + ".join(["1"] * 3000),
        "a.all(x, " * 500 + "true" + ")" * 500,
    ],
)
def test_nesting_is_bounded(source: str) -> None:
    with pytest.raises(CompileError, match="expression recursion limit exceeded"):
        parse(source)


def test_long_chains_of_logic_are_no_nesting() -> None:
    parse(" && ".join(["a"] * 4_000))
    parse("!" * 10_000 + "a")
    parse("(" * (NESTING_MAX - 1) + "1" + ")" * (NESTING_MAX - 1))


def test_too_long_a_source_is_refused_at_once() -> None:
    started = time.thread_time()
    with pytest.raises(CompileError, match="expression code point size exceeds limit"):
        parse("a" * 10_000_000)
    assert time.thread_time() - started < 10


@pytest.mark.parametrize(
    "text", ["'''" * 6_600, '"""' + "a" * 19_000, "'" * 19_999, "\\" * 19_999, "`" * 19_999]
)
def test_scanning_is_linear_in_hostile_text(text: str) -> None:
    started = time.thread_time()
    with pytest.raises(CompileError):
        parse(text)
    assert time.thread_time() - started < 20
