"""`alcove events`: Kubernetes events of one or all tenants, newest last."""

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
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Show only this namespace; default: all.")
    ] = "",
    warnings: Annotated[bool, typer.Option("--warnings", help="Show only events of type Warning.")] = False,
    last: Annotated[int, typer.Option("--last", min=1, help="Number of most recent events to show.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow new events.")] = False,
    form: FormatOption = OutputFormat.TABLE,
    via: KubeconfigOption = None,
) -> None:
    """Show recent events of all tenants or of one."""
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
    """Time of the last occurrence, as RFC 3339 text, which sorts by time."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next((each for each in times if each), event["metadata"].get("creationTimestamp", "")))


def _columns() -> tuple[PrinterColumn, ...]:
    from alcove.api.columns.core import EVENT

    return tuple(each for each in EVENT if each.name != "Name")
