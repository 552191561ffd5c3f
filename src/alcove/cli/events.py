"""`alcove events`: what happened, newest last, over all tenants or in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from alcove.cli.errors import exit_on_error
from alcove.cli.options import FormatOption, KubeconfigOption, OutputFormat, TenantOption

if TYPE_CHECKING:
    from alcove.api.kind import PrinterColumn
    from alcove.api.objects import Object


def events(
    tenant: TenantOption = "",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="One namespace; default: all.")] = "",
    warnings: Annotated[bool, typer.Option("--warnings", help="Only what went wrong.")] = False,
    last: Annotated[int, typer.Option("--last", min=1, help="How many of the newest.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens next.")] = False,
    form: FormatOption = OutputFormat.TABLE,
    via: KubeconfigOption = None,
) -> None:
    """Show what happened lately, of all tenants or of one."""
    from alcove.cli.output import show
    from alcove.cli.session import CliSession
    from alcove.client.resources import EVENTS

    selector = "type=Warning" if warnings else ""
    with exit_on_error():
        session = CliSession(via)
        found, since = session.items_at(EVENTS, tenant or "all", namespace, fieldSelector=selector)
        show(sorted(found, key=last_seen_at)[-last:], _columns(), form, with_tenant=not tenant)
        if not follow:
            return
        changes = session.watch(EVENTS, since, tenant or "all", namespace, fieldSelector=selector)
        for kind, event in changes:
            if kind != "DELETED":
                show([event], _columns(), form, with_tenant=not tenant)


def last_seen_at(event: Object) -> str:
    """When it last happened; RFC 3339 sorts as text."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next((each for each in times if each), event["metadata"].get("creationTimestamp", "")))


def _columns() -> tuple[PrinterColumn, ...]:
    from alcove.api.columns.core import EVENT

    return tuple(each for each in EVENT if each.name != "Name")
