"""The command `alcove console`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from alcove.cli import suggestions
from alcove.cli.errors import exit_on_error
from alcove.cli.options import KubeconfigOption

if TYPE_CHECKING:
    from alcove.cli.session import CliSession
    from alcove.client.kubeconfig import KubeconfigUser


def console(
    tenant: Annotated[
        str,
        typer.Option(
            "--tenant",
            "-t",
            help="Sign in as this tenant's administrator (needs a kubeconfig of ring0); default: as the kubeconfig's user.",
            autocompletion=suggestions.tenants,
        ),
    ] = "",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes one that is free.")
    ] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser.")] = True,
    via: KubeconfigOption = None,
) -> None:
    """Open the console in the browser, and serve it on this machine until Ctrl-C or until you sign out."""
    from alcove.cli.connection import load
    from alcove.cli.session import CliSession

    with exit_on_error():
        session = CliSession(via)
        user = load(session.kubeconfig)
        if tenant and user.tenant != tenant:
            user = _administrator(session, user, tenant)
        _serve(user, port, browser)


def _administrator(session: CliSession, user: KubeconfigUser, tenant: str) -> KubeconfigUser:
    """The tenant's administrator, with a certificate. Raises ApiError, CliError, ConnectionFailed."""
    from msgspec import structs

    from alcove.cli import credentials, planes
    from alcove.client.resources import TENANTS

    connection = planes.connection_of(session, session.get(TENANTS, tenant))
    issued = planes.stored_certificate(session, tenant, credentials.ADMIN)
    if issued is None:
        issued = credentials.issue(connection, tenant, credentials.ADMIN, ())
    return structs.replace(
        user, certificate_pem=issued.certificate_pem, key_pem=issued.key_pem, token="", tenant=tenant
    )


def _serve(user: KubeconfigUser, port: int, opens_browser: bool) -> None:
    import asyncio
    import webbrowser

    from alcove.processes.console import serve

    async def run() -> None:
        async with serve(user, port) as running:
            typer.echo(f"the console is at {running.url}")
            typer.echo("the link works once; Ctrl-C ends the console", err=True)
            if opens_browser:
                await asyncio.to_thread(webbrowser.open, running.url)
            await running.ended.wait()

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        return
