"""`alcove network …`: tenants' networks, for the operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from alcove.api import objects
from alcove.cli.errors import exit_on_error
from alcove.cli.options import FormatOption, KubeconfigOption, OutputFormat, TenantArgument, TenantOption

if TYPE_CHECKING:
    from alcove.api.objects import Object
    from alcove.cli.session import CliSession

app = typer.Typer(help="Show tenants' networks.", no_args_is_help=True)


@app.command("list")
def list_(
    tenant: TenantOption = "", form: FormatOption = OutputFormat.TABLE, via: KubeconfigOption = None
) -> None:
    """List networks of all tenants or of one."""
    from alcove.api.columns.alcove import NETWORK
    from alcove.cli.output import show
    from alcove.cli.session import CliSession
    from alcove.client.resources import NETWORKS

    with exit_on_error():
        found = CliSession(via).items(NETWORKS, tenant or "all")
        show(found, NETWORK, form, with_tenant=not tenant)


@app.command("show")
def show_(
    tenant: TenantArgument,
    name: Annotated[str, typer.Argument(help="Name of the network.")] = "default",
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, help="Seconds over which rates are measured.")
    ] = 1.0,
    form: FormatOption = OutputFormat.TABLE,
    via: KubeconfigOption = None,
) -> None:
    """Show a tenant's network: what it carries and drops now, its subnets, services with their backends, and pods."""
    from alcove.api.columns.alcove import NETWORK
    from alcove.cli import output
    from alcove.cli.session import CliSession
    from alcove.client.resources import NETWORKS

    with exit_on_error():
        session = CliSession(via)
        network = session.get(NETWORKS, name, tenant)
        output.show_one(network, NETWORK, form)
        if form in (OutputFormat.TABLE, OutputFormat.WIDE):
            _show_health(session, tenant, name, interval, form)
            _show_content(session, network, tenant, name, form)


def _show_health(session: CliSession, tenant: str, name: str, interval: float, form: OutputFormat) -> None:
    from alcove.api.columns.sight import DROP
    from alcove.cli import network_health
    from alcove.cli.output import facts, show

    found = network_health.health(session, tenant, name, interval)
    typer.echo()
    facts(found.facts())
    if found.drops:
        typer.echo(f"\nDropped in the last {network_health.DROPS_SECONDS // 60} minutes:")
        show(found.drops[: network_health.DROPS_SHOWN], DROP, form)


def _show_content(session: CliSession, network: Object, tenant: str, name: str, form: OutputFormat) -> None:
    from alcove.api.columns import alcove
    from alcove.api.columns.pods import COLUMNS as POD
    from alcove.api.columns.services import SERVICE
    from alcove.api.kind import PrinterColumn
    from alcove.cli import network_health
    from alcove.cli.output import show
    from alcove.client.resources import ENDPOINT_SLICES, PODS, SERVICES

    services = _in_network(session.items(SERVICES, tenant), name)
    ready = network_health.backends(services, session.items(ENDPOINT_SLICES, tenant))

    def backends(service: Object, _now: float) -> str:
        return ready[objects.namespace(service), objects.name(service)]

    sections = (
        ("Subnets", _subnets(session, network), alcove.SUBNET),
        ("Services", services, (*SERVICE, PrinterColumn("Backends", backends, description="Ready, of all."))),
        ("Pods", _in_network(session.items(PODS, tenant), name), POD),
    )
    for title, items, columns in sections:
        if items:
            typer.echo(f"\n{title}:")
            show(items, columns, form)


def _subnets(session: CliSession, network: Object) -> list[Object]:
    """Those of the network's VPC; none for tenants, who cannot read ring0's objects."""
    from alcove.api.errors import Forbidden
    from alcove.client.resources import SUBNETS

    vpc = objects.get(network, "status", "vpc", default="")
    if not vpc:
        return []
    try:
        return [each for each in session.items(SUBNETS) if objects.get(each, "spec", "vpc") == vpc]
    except Forbidden:
        return []


def _in_network(items: list[Object], network: str) -> list[Object]:
    """Items of the network: named in the spec or by a label, else `default`."""
    label = "arktos.futurewei.com/network"

    def network_of(item: Object) -> str:
        named = objects.get(item, "spec", "network") or objects.labels(item).get(label)
        return str(named or "default")

    return [item for item in items if network_of(item) == network]
