"""`alcove tenant …`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alcove.api.errors import ApiError
from alcove.cli.connection import Connection, ConnectionFailed, default_kubeconfig, load

app = typer.Typer(help="Tenants and their credentials.", no_args_is_help=True)

KubeconfigOption = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="Ring0's kubeconfig; default $KUBECONFIG or ~/.kube/config."),
]


@app.command()
def kubeconfig(
    tenant: Annotated[str, typer.Argument(help="The tenant.")],
    user: Annotated[str, typer.Option(help="Whom the credential names.")] = "admin",
    group: Annotated[list[str] | None, typer.Option(help="A group of the user; repeatable.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; default: standard output.")
    ] = None,
    via: KubeconfigOption = None,
) -> None:
    """Write a kubeconfig for a user of TENANT, with a certificate signed for it."""
    from alcove.cli import credentials
    from alcove.cli.kubeconfig import render

    try:
        connection = Connection(load(via or default_kubeconfig()))
        issued = credentials.issue(connection, tenant, user, tuple(group or ()))
    except (ApiError, ConnectionFailed) as error:
        typer.secho(f"error: {error}", err=True, fg=typer.colors.RED)
        raise typer.Exit(1) from error
    text = render(connection.server, connection.ca_pem, tenant, user, issued)
    if output is None:
        typer.echo(text, nl=False)
        return
    output.touch(mode=0o600)
    output.write_text(text)
    typer.echo(f"wrote {output}", err=True)
