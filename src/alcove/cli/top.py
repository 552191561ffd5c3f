"""`alcove top`: which tenant has how much of the cluster: CPU, memory and pods it asked for, requests it made."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated

import typer

from alcove.cli.failures import told
from alcove.cli.options import Format, FormatOption, KubeconfigOption

if TYPE_CHECKING:
    from alcove.cli.session import Session
    from alcove.cli.shares import Share

REQUESTS = re.compile(r'^alcove_tenant_requests_total\{tenant="([^"]*)"\} ([0-9.e+]+)', re.MULTILINE)
HEADS = ("TENANT", "SHARE", "CPU", "CPU%", "MEMORY", "MEMORY%", "PODS", "PODS%", "REQUESTS/S")


def top(
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, help="Seconds over which requests are counted.")
    ] = 1.0,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on showing it.")] = False,
    form: FormatOption = Format.TABLE,
    via: KubeconfigOption = None,
) -> None:
    """Show tenants by their share of CPU, memory, pods and API requests."""
    from alcove.cli.output import show_rows
    from alcove.cli.session import Session

    with told():
        session = Session(via)
        while True:
            before = requests(session.connection.text("/metrics"))
            time.sleep(interval)
            after = requests(session.connection.text("/metrics"))
            rates = {tenant: (count - before.get(tenant, 0)) / interval for tenant, count in after.items()}
            rows = [_row(share, rates.get(share.tenant, 0.0)) for share in _shares(session)]
            show_rows(HEADS, rows, form)
            if not watch:
                return
            typer.echo()


def requests(metrics: str) -> dict[str, float]:
    """How many each tenant made since the server started; only the busiest are counted."""
    return {tenant: float(count) for tenant, count in REQUESTS.findall(metrics)}


def _shares(session: Session) -> list[Share]:
    from alcove.cli.shares import capacity, shares
    from alcove.client.resources import NODES, PODS, TENANTS

    names = [tenant["metadata"]["name"] for tenant in session.items(TENANTS)]
    return shares(names, session.items(PODS, "all"), capacity(session.items(NODES)))


def _row(share: Share, rate: float) -> tuple[object, ...]:
    used, part = share.used, share.part
    memory = f"{used.memory_bytes / 2**20:.0f}Mi"
    cells = (share.tenant, percent(share.dominant), f"{used.cpu_milli}m", percent(part.cpu), memory)
    return (*cells, percent(part.memory), used.pods, percent(part.pods), f"{rate:.1f}")


def percent(part: float) -> str:
    return f"{100 * part:.1f}%"
