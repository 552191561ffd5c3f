"""`kubectl get … --all-tenants`: lists objects through kubectl, and prints them with a TENANT column."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from itertools import groupby

import orjson
import typer

from alcove.api.columns import COLUMNS
from alcove.api.columns.base import AGE, NAME
from alcove.api.kind import PrinterColumn
from alcove.api.objects import Object
from alcove.cli.options import OutputFormat
from alcove.cli.output import show

_NAMESPACE = PrinterColumn("Namespace", lambda item, _now: str(item["metadata"].get("namespace", "")))


def table_format(arguments: Sequence[str]) -> OutputFormat | None:
    """The table format that the arguments ask for. None if kubectl prints objects or watches: it runs
    unchanged then."""
    format_ = OutputFormat.TABLE
    for argument, following in zip(arguments, (*arguments[1:], ""), strict=True):
        if argument in ("-w", "--watch", "--watch-only", "--raw") or argument.startswith("--raw="):
            return None
        if argument in ("-o", "--output"):
            value = following
        elif argument.startswith("--output="):
            value = argument.removeprefix("--output=")
        elif argument.startswith("-o") and not argument.startswith("--"):
            value = argument.removeprefix("-o").removeprefix("=")
        else:
            continue
        if value != "wide":
            return None
        format_ = OutputFormat.WIDE
    return format_


def except_output(arguments: Sequence[str]) -> list[str]:
    """The arguments without `-o wide` in any of its spellings."""
    remaining: list[str] = []
    pending = list(arguments)
    while pending:
        argument = pending.pop(0)
        if argument in ("-o", "--output"):
            pending.pop(0)
        elif not argument.startswith(("-o", "--output=")):
            remaining.append(argument)
    return remaining


def get(program: str, arguments: Sequence[str], form: OutputFormat) -> int:
    """Prints the table; returns kubectl's exit code."""
    command = [program, *except_output(arguments), "--output=json"]
    completed = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if completed.returncode or not completed.stdout:
        return completed.returncode
    response = orjson.loads(completed.stdout)
    items = response["items"] if response.get("kind", "").endswith("List") else [response]
    if not items:
        typer.echo("No resources found", err=True)
    for number, (kind, group) in enumerate(groupby(items, _kind)):
        if number:
            typer.echo()
        _draw(kind, list(group), form)
    return 0


def _kind(item: Object) -> tuple[str, str]:
    version = str(item.get("apiVersion", ""))
    return (version.rpartition("/")[0], str(item.get("kind", "")))


def _draw(kind: tuple[str, str], items: list[Object], form: OutputFormat) -> None:
    columns = COLUMNS.get(kind, (NAME, AGE))
    is_namespaced = any(item["metadata"].get("namespace") for item in items)
    show(items, (_NAMESPACE, *columns) if is_namespaced else columns, form, with_tenant=True)
