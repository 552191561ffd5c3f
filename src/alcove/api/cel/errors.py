"""Errors of compiling and evaluating an expression.

CompileError   the source does not parse or type-check; contains every issue found
CelError       evaluation failed (no such key, overflow, …); `&&`, `||`, `all`, `exists` may absorb it
OutOfBudget    evaluation would cost too much; nothing absorbs it
LongEvaluation evaluation would take too long here, and can be repeated elsewhere; nothing absorbs it
"""

from collections.abc import Sequence

from msgspec import Struct

_ISSUES_MAX = 10


class Issue(Struct, frozen=True):
    """One error in a source text. `offset` counts code points from the start."""

    offset: int
    message: str


class CompileError(Exception):
    """Formatted as Kubernetes does: position, message, the source line, a marker below it."""

    def __init__(self, source: str, issues: Sequence[Issue]) -> None:
        self.issues = tuple(issues)
        messages = [_display(source, issue) for issue in issues[:_ISSUES_MAX]]
        if len(issues) > _ISSUES_MAX:
            messages.append(f"{len(issues) - _ISSUES_MAX} more errors were truncated")
        super().__init__("\n".join(messages))


class CelError(Exception):
    pass


class OutOfBudget(Exception):
    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class LongEvaluation(Exception):
    """The allowance of this thread is spent (`budget.Allowance`)."""


_SNIPPET_MAX = 4_096


def _display(source: str, issue: Issue) -> str:
    before = source[: issue.offset]
    line_number = before.count("\n") + 1
    start = before.rfind("\n") + 1
    end = source.find("\n", start)
    line = source[start : end if end >= 0 else len(source)].replace("\t", " ")
    column = issue.offset - start
    message = f"ERROR: <input>:{line_number}:{column + 1}: {issue.message}"
    if len(line) > _SNIPPET_MAX:
        return message
    dots = "".join("．" if ord(char) > 127 else "." for char in line[:column])
    mark = "＾" if column < len(line) and ord(line[column]) > 127 else "^"
    return f"{message}\n | {line}\n | {dots}{mark}"
