"""Literal arguments that are checked when compiling: timestamps, durations, regular expressions."""

from alcove.api.cel.ast import CallNode, Literal
from alcove.api.cel.errors import CelError, Issue
from alcove.api.cel.library.regex import pattern
from alcove.api.cel.times import parse_duration, parse_timestamp

_CHECKED = ("duration", "matches", "timestamp")


def literal_issue(node: CallNode) -> Issue | None:
    """Return the issue of the call's first literal argument, with cel-go's message."""
    if node.function not in _CHECKED or not node.args:
        return None
    arg = node.args[-1] if node.function == "matches" else node.args[0]
    if not isinstance(arg, Literal) or not isinstance(arg.value, str) or _is_good(node.function, arg.value):
        return None
    return Issue(arg.offset, f"invalid {node.function} argument")


def _is_good(function: str, value: str) -> bool:
    try:
        match function:
            case "duration":
                return parse_duration(value) is not None
            case "timestamp":
                return parse_timestamp(value) is not None
        pattern(value)
    except CelError:
        return False
    return True
