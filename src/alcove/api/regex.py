"""Regular expressions with RE2's semantics, as in Kubernetes: no backtracking.

Patterns come from tenants (schemas, CEL). RE2 bounds both compiling and matching, in time and memory. The
engine is imported when the first pattern is compiled.
"""

from typing import Any

PATTERN_LENGTH_MAX = 16_384
_MEMORY_MAX = 1 << 20
"""Bytes that RE2 may use for one pattern's program and its cache of states."""


_CODES = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}
"""RE2's error messages mapped to those of Go's regexp package, which Kubernetes returns."""


class RegexError(Exception):
    """The pattern is not a valid regular expression, or is too large."""


def compile_regex(pattern: str) -> Any:
    """Compile a pattern to an object with the methods of `re` (`search`, …). Raises RegexError."""
    import re2

    if len(pattern) > PATTERN_LENGTH_MAX:
        raise RegexError(f"pattern too long (at most {PATTERN_LENGTH_MAX} characters)")
    options = re2.Options()
    options.max_mem = _MEMORY_MAX
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise RegexError(f"error parsing regexp: {_go_message(error.args[0])}") from error


def _go_message(message: bytes | str) -> str:
    text = message.decode(errors="replace") if isinstance(message, bytes) else message
    code, _, culprit = text.partition(": ")
    code = _CODES.get(code, code)
    return f"{code}: `{culprit}`" if culprit else code
