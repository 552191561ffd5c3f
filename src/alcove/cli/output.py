"""Output of commands: tables, JSON, YAML and names; colours only on a terminal."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from alcove.cli.options import OutputFormat

if TYPE_CHECKING:
    from alcove.api.kind import PrinterColumn
    from alcove.api.objects import Object

GAP = "   "
_C1 = re.compile("[\x7f-\x9f]")
_COLOURS = {
    "green": {"Active", "Ready", "Running", "Succeeded", "Provisioned", "ok", "yes", "up", "True"},
    "yellow": {"Pending", "Terminating", "Init", "starting", "warning", "SchedulingDisabled"},
    "red": {"Failed", "NotReady", "Unknown", "down", "failed", "no", "missing", "Warning"},
}
_PAINT = {word: colour for colour, words in _COLOURS.items() for word in words}


def show(
    items: Sequence[Object],
    columns: Sequence[PrinterColumn],
    form: OutputFormat,
    *,
    with_tenant: bool = False,
) -> None:
    """Prints objects of one kind in the requested format."""
    match form:
        case OutputFormat.JSON:
            typer.echo(to_json(as_list(items)))
        case OutputFormat.YAML:
            typer.echo(to_yaml(as_list(items)), nl=False)
        case OutputFormat.NAME:
            for item in items:
                typer.echo(named(item, with_tenant=with_tenant))
        case OutputFormat.TABLE | OutputFormat.WIDE:
            table(*_cells(items, columns, form, with_tenant=with_tenant))


def _cells(
    items: Sequence[Object], columns: Sequence[PrinterColumn], form: OutputFormat, *, with_tenant: bool
) -> tuple[list[str], list[list[str]]]:
    """The heads and the rows of a table."""
    visible = [each for each in columns if form is OutputFormat.WIDE or not each.priority]
    heads = [each.name.upper() for each in visible]
    now = time.time()
    rows = [[_cell(each.value(item, now)) for each in visible] for item in items]
    if with_tenant:
        heads = ["TENANT", *heads]
        rows = [[escape(tenant_of(item)), *row] for item, row in zip(items, rows, strict=True)]
    return heads, rows


class Following:
    """Prints objects of one kind one by one: a table gets its head once, and columns that only become wider."""

    def __init__(self, columns: Sequence[PrinterColumn], form: OutputFormat, *, with_tenant: bool) -> None:
        self._columns = columns
        self._form = form
        self._with_tenant = with_tenant
        self._widths: list[int] = []

    def show(self, item: Object) -> None:
        match self._form:
            case OutputFormat.JSON:
                typer.echo(to_json_line(item))
            case OutputFormat.YAML:
                typer.echo("---\n" + to_yaml(item), nl=False)
            case OutputFormat.NAME:
                typer.echo(named(item, with_tenant=self._with_tenant))
            case OutputFormat.TABLE | OutputFormat.WIDE:
                heads, [row] = _cells([item], self._columns, self._form, with_tenant=self._with_tenant)
                is_first, before = not self._widths, self._widths or [0] * len(heads)
                self._widths = [
                    max(len(head), len(cell), width)
                    for head, cell, width in zip(heads, row, before, strict=True)
                ]
                if is_first:
                    _print_row(heads, self._widths, is_value=False)
                _print_row(row, self._widths, is_value=True)


def show_one(
    item: Object, columns: Sequence[PrinterColumn], form: OutputFormat, *, with_tenant: bool = False
) -> None:
    """Prints one object: JSON and YAML without a List around it."""
    match form:
        case OutputFormat.JSON:
            typer.echo(to_json(item))
        case OutputFormat.YAML:
            typer.echo(to_yaml(item), nl=False)
        case _:
            show([item], columns, form, with_tenant=with_tenant)


def show_rows(heads: Sequence[str], rows: Sequence[Sequence[object]], form: OutputFormat) -> None:
    """Prints rows whose first column is a name; as JSON and YAML a list of mappings."""
    match form:
        case OutputFormat.JSON:
            typer.echo(to_json(_mappings(heads, rows)))
        case OutputFormat.YAML:
            typer.echo(to_yaml(_mappings(heads, rows)), nl=False)
        case OutputFormat.NAME:
            for row in rows:
                typer.echo(_cell(row[0]))
        case OutputFormat.TABLE | OutputFormat.WIDE:
            table(heads, [[_cell(each) for each in row] for row in rows])


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints aligned columns, as kubectl does."""
    if not rows:
        typer.echo("No resources found", err=True)
        return
    widths = [max(len(row[index]) for row in (heads, *rows)) for index in range(len(heads))]
    for number, row in enumerate((heads, *rows)):
        _print_row(row, widths, is_value=number > 0)


def _print_row(row: Sequence[str], widths: Sequence[int], *, is_value: bool) -> None:
    cells = [_padded(cell, width, is_value) for cell, width in zip(row, widths, strict=True)]
    typer.echo(GAP.join(cells).rstrip())


def facts(pairs: Mapping[str, object]) -> None:
    """Prints one `label: value` line per pair."""
    width = max((len(label) for label in pairs), default=0) + 1
    for label, value in pairs.items():
        typer.echo(f"{label + ':':<{width}} {paint(_cell(value))}")


def paint(word: str) -> str:
    """The word with its colour, if the output is a terminal."""
    colour = _PAINT.get(word.partition(",")[0])
    return typer.style(word, fg=colour) if colour and is_coloured() else word


def is_coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def as_list(items: Sequence[Object]) -> Object:
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": list(items)}


def named(item: Object, *, with_tenant: bool = False) -> str:
    """`tenant/acme`, as kubectl names objects; with the tenant in front where several are shown."""
    name = f"{str(item.get('kind', '')).lower()}/{item['metadata']['name']}"
    return escape(f"{tenant_of(item)}/{name}" if with_tenant else name)


def tenant_of(item: Object) -> str:
    return str(item["metadata"].get("tenant", ""))


def to_json(value: Any) -> str:
    import orjson

    return _escape_c1(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def to_json_line(value: Any) -> str:
    import orjson

    return _escape_c1(orjson.dumps(value).decode())


def _escape_c1(text: str) -> str:
    """JSON need not escape these, but some terminals obey them."""
    return _C1.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def to_yaml(value: Any) -> str:
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    return text


def _mappings(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> list[dict[str, object]]:
    keys = [head.lower().replace(" ", "_") for head in heads]
    return [dict(zip(keys, row, strict=True)) for row in rows]


def _cell(value: object) -> str:
    return "<none>" if value is None else escape(str(value))


def escape(text: str) -> str:
    """The text without characters that a terminal would obey: tenants choose names and messages."""
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def _padded(cell: str, width: int, is_value: bool) -> str:
    return (paint(cell) if is_value else cell) + " " * (width - len(cell))
