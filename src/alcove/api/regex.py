"""Regular expressions as Kubernetes understands them: RE2, never backtracking.

Patterns come from tenants (schemas, CEL). RE2 bounds both compiling and matching, in time and
memory. The engine is loaded with the first pattern.
"""

from typing import Any

PATTERN_LENGTH_MOST = 16_384
_MEMORY_MOST = 1 << 20
"""Bytes RE2 may use for one pattern's program and its cache of states."""


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
"""RE2's complaints in the words of Go's package, which Kubernetes passes on."""


class RegexError(Exception):
    """The pattern is no regular expression, or too large a one."""


def compile_regex(pattern: str) -> Any:
    """A compiled pattern with `search`, `finditer`, … of `re`. Raises RegexError."""
    import re2

    if len(pattern) > PATTERN_LENGTH_MOST:
        raise RegexError(f"pattern too long (at most {PATTERN_LENGTH_MOST} characters)")
    options = re2.Options()
    options.max_mem = _MEMORY_MOST
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise RegexError(f"error parsing regexp: {_told(error.args[0])}") from error


def _told(complaint: bytes | str) -> str:
    text = complaint.decode(errors="replace") if isinstance(complaint, bytes) else complaint
    code, _, culprit = text.partition(": ")
    code = _CODES.get(code, code)
    return f"{code}: `{culprit}`" if culprit else code
