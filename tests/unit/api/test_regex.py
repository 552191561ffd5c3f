"""Patterns of tenants: RE2's syntax, messages as in Go, linear time."""

import time

import pytest

from alcove.api.regex import PATTERN_LENGTH_MAX, RegexError, compile_regex


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a(", "error parsing regexp: missing closing ): `a(`"),
        ("[a", "error parsing regexp: missing closing ]: `[a`"),
        ("a**", "error parsing regexp: invalid nested repetition operator: `**`"),
        ("*a", "error parsing regexp: missing argument to repetition operator: `*`"),
        ("(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
        ("(a)\\1", "error parsing regexp: invalid escape sequence: `\\1`"),
        ("a{1001}", "error parsing regexp: invalid repeat count: `{1001}`"),
    ],
)
def test_messages_are_those_of_go(pattern: str, message: str) -> None:
    with pytest.raises(RegexError) as caught:
        compile_regex(pattern)
    assert str(caught.value) == message


def test_matching_is_a_search() -> None:
    assert compile_regex("b+").search("abba") is not None
    assert compile_regex("^b").search("abba") is None
    assert compile_regex("é$").search("caffé") is not None


def test_patterns_that_backtrack_elsewhere_take_linear_time() -> None:
    started = time.process_time()
    assert compile_regex("(a+)+$").search("a" * 100_000 + "b") is None
    assert compile_regex("(a|aa|aaa)*c").search("a" * 100_000) is None
    assert time.process_time() - started < 20


def test_huge_patterns_are_refused() -> None:
    with pytest.raises(RegexError, match="too long"):
        compile_regex("a" * (PATTERN_LENGTH_MAX + 1))
    with pytest.raises(RegexError):
        compile_regex("((a{100}){100}){100}")
