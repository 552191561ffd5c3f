"""`alcove policy …`: what is wrong with NetworkPolicies, and which ones would allow what was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from alcove.cli.errors import CliError, ExitCode, exit_on_error
from alcove.cli.options import FormatOption, KubeconfigOption, OutputFormat

if TYPE_CHECKING:
    from alcove.api.objects import Object

app = typer.Typer(help="Check and propose NetworkPolicies.", no_args_is_help=True)
HEADS = ("SUBJECT", "PROBLEM", "MESSAGE")
FLOWS_MAX = 10_000
OneTenantOption = Annotated[str, typer.Option("--tenant", "-t", help="The tenant; default: the user's own.")]


@app.command("check")
def check_(
    tenant: OneTenantOption = "", form: FormatOption = OutputFormat.TABLE, via: KubeconfigOption = None
) -> None:
    """Find policies and rules without effect, and services that no policy lets anybody reach.

    Exits with 1 if there are any."""
    from alcove.cli.output import show_rows
    from alcove.cli.session import CliSession
    from alcove.cli.trace import read
    from alcove.network.policy_check import check

    with exit_on_error():
        findings = check(read(CliSession(via), tenant))
        if not findings and form in (OutputFormat.TABLE, OutputFormat.WIDE):
            typer.echo("no problems found")
            return
        show_rows(HEADS, [(each.subject, each.problem, each.message) for each in findings], form)
    if findings:
        raise typer.Exit(ExitCode.FAILED)


@app.command("propose")
def propose_(
    from_flows: Annotated[
        bool, typer.Option("--from-flows", help="From the connections that nodes have seen.")
    ] = False,
    tenant: OneTenantOption = "",
    namespace: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", help="Only policies of this namespace; may be repeated."),
    ] = None,
    since: Annotated[
        str, typer.Option("--since", help="Only connections with packets in this time, such as 30m or 2h.")
    ] = "",
    form: FormatOption = OutputFormat.YAML,
    via: KubeconfigOption = None,
) -> None:
    """Print the least NetworkPolicies that allow what was seen. Nothing is applied.

    Connections that nodes no longer remember are not allowed: propose while everything is used."""
    from alcove.api.columns.base import AGE, NAME
    from alcove.cli.flows import FlowQuery, seconds_of
    from alcove.cli.output import escape, show
    from alcove.cli.session import CliSession
    from alcove.cli.trace import list_of
    from alcove.client.resources import PODS
    from alcove.network.policy_proposal import propose

    with exit_on_error():
        if not from_flows:
            raise CliError("say what to propose from: --from-flows", ExitCode.USAGE)
        session = CliSession(via)
        seconds = seconds_of(since)
        query = FlowQuery(tenant, "", "", "forwarded", seconds, FLOWS_MAX)
        flows: list[Object] = query.request(session, tenant, seconds)
        proposal = propose(list_of(session, tenant, PODS), flows, frozenset(namespace or ()))
        for what in proposal.left_out:
            typer.echo(f"left out: {escape(what)}", err=True)
        show(proposal.policies, (NAME, AGE), form)
