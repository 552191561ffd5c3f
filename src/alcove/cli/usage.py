"""`alcove usage`: what tenants have used, by hour, day or in total."""

from __future__ import annotations

import csv
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from alcove.cli.errors import exit_on_error
from alcove.cli.options import KubeconfigOption, OutputFormat, TenantOption

if TYPE_CHECKING:
    from alcove.api.objects import Object
    from alcove.cli.session import CliSession

LIMIT = 10_000


class UsageFormat(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    CSV = "csv"
    JSON = "json"


class UsageStep(StrEnum):
    HOUR = "hour"
    DAY = "day"
    TOTAL = "total"


def usage(
    tenant: TenantOption = "",
    start: Annotated[
        str,
        typer.Option(
            "--from", help="Beginning, such as 2026-11-01 or 2026-11-01T12:00:00Z; default: a day ago."
        ),
    ] = "",
    end: Annotated[str, typer.Option("--to", help="End, in the same form; default: now.")] = "",
    by: Annotated[UsageStep, typer.Option("--by", help="What one line is about.")] = UsageStep.TOTAL,
    form: Annotated[UsageFormat, typer.Option("--output", "-o", help="Output format.")] = UsageFormat.TABLE,
    via: KubeconfigOption = None,
) -> None:
    """Show what tenants have used: CPU, memory, pods, volumes, API time and traffic."""
    from alcove.api.columns.usage import TENANT_USAGE
    from alcove.cli.output import show
    from alcove.cli.session import CliSession

    with exit_on_error():
        found = fetch(CliSession(via), tenant, {"from": start, "to": end, "step": by.value})
        if form is UsageFormat.CSV:
            write_csv(found)
            return
        show(found, TENANT_USAGE, OutputFormat(form.value), with_tenant=not tenant)


def fetch(session: CliSession, tenant: str, query: dict[str, str]) -> list[Object]:
    """Without a tenant, that of all tenants; for a tenant's user, its own."""
    from alcove.api.errors import Forbidden

    try:
        return _request(session, tenant or "all", query)
    except Forbidden:
        if tenant:
            raise
        return _request(session, "", query)


def _request(session: CliSession, tenant: str, query: dict[str, str]) -> list[Object]:
    from alcove.client import paths
    from alcove.client.resources import TENANT_USAGES

    within = f"/tenants/{tenant}" if tenant else ""
    path = f"{TENANT_USAGES.root}{within}/{TENANT_USAGES.resource}"
    answer = session.connection.request("GET", paths.with_query(path, {**query, "limit": str(LIMIT)}))
    if left_out := answer["metadata"].get("remainingItemCount"):
        typer.echo(f"warning: {left_out} more lines are left out; ask for less time, or one tenant", err=True)
    items: list[Object] = answer["items"]
    return items


def write_csv(usages: list[Object]) -> None:
    """In base units, with a line of names."""
    from alcove.api.usage import API_NAMES
    from alcove.cli.output import escape

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("tenant", "start", "end", *API_NAMES))
    for each in usages:
        amounts = each.get("amounts") or {}
        tenant = each["metadata"].get("tenant", "")
        row = (tenant, each["start"], each["end"], *(amounts.get(name, 0) for name in API_NAMES))
        writer.writerow([escape(str(cell)) for cell in row])
