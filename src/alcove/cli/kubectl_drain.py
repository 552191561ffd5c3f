"""`alcove kubectl drain NODE`: kubectl's own drain evicts the pods of one tenant, this one those of all."""

from __future__ import annotations

import re
from collections.abc import Sequence

from alcove.cli.drain import DrainOptions
from alcove.cli.errors import CliError, ExitCode

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_FLAGS = ("--force", "--delete-emptydir-data", "--ignore-daemonsets")
_VALUES = ("--grace-period", "--timeout")
_ELSEWHERE = ("--context", "--request-timeout", "-v", "--v")
"""Options of kubectl with a value that do not concern the drain itself."""


def parse(arguments: Sequence[str]) -> tuple[str, DrainOptions]:
    """The node and the options after `drain`, in kubectl's words. Pods of DaemonSets always stay. Raises CliError."""
    flags = dict.fromkeys(_FLAGS, False)
    values = {"--grace-period": "-1", "--timeout": "0s"}
    nodes: list[str] = []
    pending = list(arguments)
    while pending:
        argument = pending.pop(0)
        name, has_value, value = argument.partition("=")
        if not argument.startswith("-"):
            nodes.append(argument.removeprefix("node/"))
        elif name in flags:
            flags[name] = value != "false"
        elif name in _VALUES or name in _ELSEWHERE:
            value = value if has_value else (pending.pop(0) if pending else "")
            values[name] = value
        else:
            message = f"{name} is not supported by `alcove kubectl drain`: it evicts the pods of all tenants"
            raise CliError(f"{message}; supported are {', '.join((*_FLAGS, *_VALUES))}", ExitCode.USAGE)
    if len(nodes) != 2 or nodes[0] != "drain":
        raise CliError("`drain` needs the name of one node", ExitCode.USAGE)
    seconds = _seconds(values["--timeout"])
    options = DrainOptions(
        flags["--delete-emptydir-data"],
        flags["--force"],
        _grace_seconds(values["--grace-period"]),
        seconds or float("inf"),
    )
    return nodes[1], options


def _grace_seconds(text: str) -> int | None:
    if not re.fullmatch(r"-?\d+", text):
        raise CliError(f'invalid --grace-period "{text}": must be a number of seconds', ExitCode.USAGE)
    return int(text) if int(text) >= 0 else None


def _seconds(text: str) -> float:
    """Seconds of a duration such as `1m30s`; 0 means no limit."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|[smh])", text)
    if "".join("".join(part) for part in parts) != text and text != "0":
        raise CliError(f'invalid --timeout "{text}": must be a duration such as 90s or 5m', ExitCode.USAGE)
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
