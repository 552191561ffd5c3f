"""`alcove network …`: tenants' networks, for the operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

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
    form: FormatOption = OutputFormat.TABLE,
    via: KubeconfigOption = None,
) -> None:
    """Show a tenant's network with its VPC, subnets, services and pods."""
    from alcove.api.columns.alcove import NETWORK
    from alcove.cli import output
    from alcove.cli.session import CliSession
    from alcove.client.resources import NETWORKS

    with exit_on_error():
        session = CliSession(via)
        network = session.get(NETWORKS, name, tenant)
        output.show_one(network, NETWORK, form)
        if form in (OutputFormat.TABLE, OutputFormat.WIDE):
            _show_content(session, network, tenant, name, form)


def _show_content(session: CliSession, network: Object, tenant: str, name: str, form: OutputFormat) -> None:
    from alcove.api import objects
    from alcove.api.columns import alcove
    from alcove.api.columns.pods import COLUMNS as POD
    from alcove.api.columns.services import SERVICE
    from alcove.cli.output import show
    from alcove.client.resources import PODS, SERVICES, SUBNETS

    vpc = objects.get(network, "status", "vpc", default="")
    subnets = [each for each in session.items(SUBNETS) if objects.get(each, "spec", "vpc") == vpc]
    sections = (
        ("Subnets", [each for each in subnets if vpc], alcove.SUBNET),
        ("Services", _in_network(session.items(SERVICES, tenant), name), SERVICE),
        ("Pods", _in_network(session.items(PODS, tenant), name), POD),
    )
    for title, items, columns in sections:
        if items:
            typer.echo(f"\n{title}:")
            show(items, columns, form)


def _in_network(items: list[Object], network: str) -> list[Object]:
    """Items of the network: named in the spec or by a label, else `default`."""
    from alcove.api import objects

    label = "arktos.futurewei.com/network"

    def network_of(item: Object) -> str:
        named = objects.get(item, "spec", "network") or objects.labels(item).get(label)
        return str(named or "default")

    return [item for item in items if network_of(item) == network]
