"""`alcove top`: each tenant's share of the cluster (requested and used CPU, memory, pods) and API request
rate; `alcove top networks`: what networks carry and drop."""

from __future__ import annotations

import re
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from alcove.cli.errors import exit_on_error
from alcove.cli.options import FormatOption, KubeconfigOption, OutputFormat

if TYPE_CHECKING:
    from alcove.cli.session import CliSession
    from alcove.cli.shares import ResourceTotals, TenantRequests

REQUESTS = re.compile(
    r'^alcove_tenant_requests_total\{tenant="([^"]*)"(?:,worker="[^"]*")?\} ([0-9.e+]+)', re.MULTILINE
)
HEADS = (
    *("TENANT", "SHARE", "CPU", "CPU%", "CPU USED", "MEMORY", "MEMORY%", "MEMORY USED"),
    *("PODS", "PODS%", "REQUESTS/S"),
)
METRICS = "/apis/metrics.k8s.io/v1beta1/tenants/all/pods"


class TopSubject(StrEnum):
    TENANTS = "tenants"
    NETWORKS = "networks"


def top(
    subject: Annotated[TopSubject, typer.Argument(help="What is shown.")] = TopSubject.TENANTS,
    interval: Annotated[
        float,
        typer.Option("--interval", min=0.1, help="Seconds over which rates are measured."),
    ] = 1.0,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Repeat until interrupted.")] = False,
    form: FormatOption = OutputFormat.TABLE,
    via: KubeconfigOption = None,
) -> None:
    """Show tenants by share (requested and used CPU, memory, pods, and API request rate), or networks by traffic."""
    from alcove.cli import top_networks
    from alcove.cli.output import show_rows
    from alcove.cli.session import CliSession

    with exit_on_error():
        session = CliSession(via)
        while True:
            if subject is TopSubject.NETWORKS:
                show_rows(top_networks.HEADS, top_networks.rows(session, interval), form)
            else:
                show_rows(HEADS, _tenant_rows(session, interval), form)
            if not watch:
                return
            typer.echo()


def _tenant_rows(session: CliSession, interval: float) -> list[tuple[object, ...]]:
    before = requests(session.connection.text("/metrics"))
    time.sleep(interval)
    after = requests(session.connection.text("/metrics"))
    rates = {tenant: (count - before.get(tenant, 0)) / interval for tenant, count in after.items()}
    in_use = _used(session)
    return [_row(share, in_use.get(share.tenant), rates.get(share.tenant, 0.0)) for share in _shares(session)]


def requests(metrics: str) -> dict[str, float]:
    """Requests per tenant since the server started; the metric has only the busiest tenants."""
    counts: dict[str, float] = {}
    for tenant, count in REQUESTS.findall(metrics):
        counts[tenant] = counts.get(tenant, 0.0) + float(count)  # Of each worker.
    return counts


def _shares(session: CliSession) -> list[TenantRequests]:
    from alcove.cli.shares import capacity, shares
    from alcove.client.resources import NODES, PODS, TENANTS

    names = [tenant["metadata"]["name"] for tenant in session.items(TENANTS)]
    return shares(names, session.items(PODS, "all"), capacity(session.items(NODES)))


def _used(session: CliSession) -> dict[str, ResourceTotals]:
    """Usage per tenant. Empty if the metrics API is unavailable."""
    from alcove.api.errors import ApiError
    from alcove.cli.shares import used

    try:
        return used(session.connection.request("GET", METRICS)["items"])
    except ApiError:
        return {}


def _row(share: TenantRequests, in_use: ResourceTotals | None, rate: float) -> tuple[object, ...]:
    requested, fraction = share.used, share.fraction
    cpu = (f"{requested.cpu_milli}m", percent(fraction.cpu), f"{in_use.cpu_milli}m" if in_use else "-")
    memory = (_mebi(requested), percent(fraction.memory), _mebi(in_use) if in_use else "-")
    pods = (requested.pods, percent(fraction.pods))
    return (share.tenant, percent(share.dominant), *cpu, *memory, *pods, f"{rate:.1f}")


def _mebi(amounts: ResourceTotals) -> str:
    return f"{amounts.memory_bytes / 2**20:.0f}Mi"


def percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}%"
