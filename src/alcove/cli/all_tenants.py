"""`kubectl get … --all-tenants`: kubectl finds the objects of all tenants, and a column tells whose each is."""

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


def table_format(words: Sequence[str]) -> OutputFormat | None:
    """Whether kubectl would draw a table; None: it shows objects, or goes on watching, and needs no help."""
    found = OutputFormat.TABLE
    for word, after in zip(words, (*words[1:], ""), strict=True):
        if word in ("-w", "--watch", "--watch-only", "--raw") or word.startswith("--raw="):
            return None
        if word in ("-o", "--output"):
            given = after
        elif word.startswith("--output="):
            given = word.removeprefix("--output=")
        elif word.startswith("-o") and not word.startswith("--"):
            given = word.removeprefix("-o").removeprefix("=")
        else:
            continue
        if given != "wide":
            return None
        found = OutputFormat.WIDE
    return found


def without_output(words: Sequence[str]) -> list[str]:
    """The words without `-o wide` in any of its spellings."""
    kept: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word in ("-o", "--output"):
            left.pop(0)
        elif not word.startswith(("-o", "--output=")):
            kept.append(word)
    return kept


def get(program: str, words: Sequence[str], form: OutputFormat) -> int:
    """Draws the table; returns kubectl's exit code."""
    command = [program, *without_output(words), "--output=json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode or not done.stdout:
        return done.returncode
    answer = orjson.loads(done.stdout)
    items = answer["items"] if answer.get("kind", "").endswith("List") else [answer]
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
