"""`alcove tenant …`: tenants and the credentials of their users."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alcove.cli import move, sleep, suggestions
from alcove.cli.errors import CliError, ExitCode, exit_on_error
from alcove.cli.options import (
    FormatOption,
    KubeconfigOption,
    OutputFormat,
    TenantArgument,
    TimeoutOption,
    WaitOption,
)
from alcove.cli.tenant_backup import verb as backup_verb

if TYPE_CHECKING:
    from alcove.api.objects import Object
    from alcove.cli.session import CliSession

app = typer.Typer(help="Manage tenants and their credentials.", no_args_is_help=True)


@app.command()
def create(
    name: TenantArgument,
    weight: Annotated[
        int | None, typer.Option(min=1, help="Weight in fair sharing; tenants have 1 by default.")
    ] = None,
    quota: Annotated[
        list[str] | None,
        typer.Option(help="Quota as RESOURCE=AMOUNT, for example cpu=8 or pods=100; repeatable."),
    ] = None,
    domain: Annotated[
        list[str] | None,
        typer.Option(help="Host name for the tenant's Ingresses, for example '*.acme.example'; repeatable."),
    ] = None,
    dedicated: Annotated[
        bool, typer.Option("--dedicated", help="Run a dedicated API server for the tenant, in ring0's pods.")
    ] = False,
    foreign: Annotated[
        bool,
        typer.Option(
            "--foreign", help="The tenant has an API server elsewhere, which `alcove plane join` joins."
        ),
    ] = False,
    form: FormatOption = OutputFormat.NAME,
    wait: WaitOption = True,
    timeout: TimeoutOption = 60.0,
    via: KubeconfigOption = None,
) -> None:
    """Create a tenant, and wait until its namespaces, roles and default network are ready."""
    from alcove.api.columns.alcove import TENANT
    from alcove.cli.output import show_one
    from alcove.cli.session import CliSession
    from alcove.client.resources import TENANTS

    with exit_on_error():
        if dedicated and foreign:
            raise CliError("use either --dedicated or --foreign", ExitCode.USAGE)
        session = CliSession(via)
        mode = "Dedicated" if dedicated else "Foreign" if foreign else ""
        created = session.create(TENANTS, _tenant(name, weight, quota or [], domain or [], mode))
        if wait and not foreign:
            created = wait_ready(session, name, timeout)
        show_one(created, TENANT, form)


def _tenant(name: str, weight: int | None, quota: list[str], domains: list[str], mode: str) -> Object:
    spec: Object = {}
    if weight is not None:
        spec["weight"] = weight
    if quota:
        pairs = [each.partition("=") for each in quota]
        if not all(resource and amount for resource, _, amount in pairs):
            raise typer.BadParameter("a quota must have the form RESOURCE=AMOUNT, for example cpu=8")
        spec["quota"] = {"hard": {resource: amount for resource, _, amount in pairs}}
    if domains:
        spec["domains"] = domains
    if mode:
        spec["controlPlane"] = {"mode": mode}
    return {"apiVersion": "v1", "kind": "Tenant", "metadata": {"name": name}, "spec": spec}


def wait_ready(session: CliSession, name: str, seconds_max: float) -> Object:
    """Waits until the tenant is initialized and its default network, if it has one, is ready."""
    from alcove.api import objects
    from alcove.cli.session import wait_for
    from alcove.client.resources import NETWORKS, TENANTS

    def initialized() -> Object | None:
        tenant = session.get(TENANTS, name)
        conditions = objects.get(tenant, "status", "conditions", default=[])
        is_initialized = any(
            each["type"] == "Initialized" and each["status"] == "True" for each in conditions
        )
        return tenant if is_initialized else None

    def connected() -> Object | None:
        network = session.find(NETWORKS, "default", name)
        phase = objects.get(network, "status", "phase") if network else "Ready"
        if phase == "Failed" and network is not None:
            raise CliError(f"network default: {objects.get(network, 'status', 'message')}")
        return tenant if phase == "Ready" else None

    tenant = wait_for(f"tenant {name} to be initialized", initialized, seconds_max)
    return wait_for(f"network {name}/default to be ready", connected, seconds_max)


@app.command("list")
def list_(form: FormatOption = OutputFormat.TABLE, via: KubeconfigOption = None) -> None:
    """List all tenants."""
    from alcove.api.columns.alcove import TENANT
    from alcove.cli.output import show
    from alcove.cli.session import CliSession
    from alcove.client.resources import TENANTS

    with exit_on_error():
        show(CliSession(via).items(TENANTS), TENANT, form)


@app.command("show")
def show_(
    name: TenantArgument, form: FormatOption = OutputFormat.TABLE, via: KubeconfigOption = None
) -> None:
    """Show a tenant with its networks and pods."""
    from alcove.api.columns.alcove import NETWORK, TENANT
    from alcove.api.kinds.core.control_planes import is_foreign
    from alcove.cli import output
    from alcove.cli.session import CliSession
    from alcove.client.resources import NAMESPACES, NETWORKS, PODS, TENANTS

    with exit_on_error():
        session = CliSession(via)
        tenant = session.get(TENANTS, name)
        output.show_one(tenant, TENANT, form)
        if form not in (OutputFormat.TABLE, OutputFormat.WIDE) or is_foreign(tenant):
            return
        pods = session.items(PODS, name)
        running = sum(1 for pod in pods if pod.get("status", {}).get("phase") == "Running")
        typer.echo()
        facts = {
            "Namespaces": len(session.items(NAMESPACES, name)),
            "Pods": f"{len(pods)}, {running} running",
            "API": f"{session.connection.server}/tenants/{name}",
        }
        output.facts(facts)
        if networks := session.items(NETWORKS, name):
            typer.echo("\nNetworks:")
            output.show(networks, NETWORK, form)


@app.command()
def delete(
    names: Annotated[
        list[str],
        typer.Argument(help="Names of the tenants.", show_default=False, autocompletion=suggestions.tenants),
    ],
    wait: WaitOption = True,
    timeout: TimeoutOption = 120.0,
    via: KubeconfigOption = None,
) -> None:
    """Delete tenants with all their objects, and wait until they are deleted."""
    from alcove.cli.session import CliSession
    from alcove.client.resources import TENANTS

    with exit_on_error():
        session = CliSession(via)
        for name in names:
            session.delete(TENANTS, name)
        for name in names:
            if wait:
                _wait_deleted(session, name, timeout)
            typer.echo(f"tenant/{name} deleted")


def _wait_deleted(session: CliSession, name: str, seconds_max: float) -> None:
    from alcove.cli.session import wait_for
    from alcove.client.resources import TENANTS

    def deleted() -> bool | None:
        return True if session.find(TENANTS, name) is None else None

    wait_for(f"tenant {name} to be deleted", deleted, seconds_max)


@app.command()
def kubeconfig(
    tenant: TenantArgument,
    user: Annotated[str, typer.Option(help="Name of the user.")] = "admin",
    group: Annotated[list[str] | None, typer.Option(help="Group of the user; repeatable.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; default: standard output.")
    ] = None,
    via: KubeconfigOption = None,
) -> None:
    """Write a kubeconfig with a client certificate for a user of TENANT."""
    from alcove.cli import credentials, planes
    from alcove.cli.kubeconfig import render
    from alcove.cli.session import CliSession
    from alcove.client.resources import TENANTS

    with exit_on_error():
        session = CliSession(via)
        connection = planes.connection_of(session, session.get(TENANTS, tenant))
        issued = None if group else planes.stored_certificate(session, tenant, user)
        if issued is None:
            issued = credentials.issue(connection, tenant, user, tuple(group or ()))
        # The home plane's address, which forwards to a dedicated API server, wherever that runs.
        home = session.connection
        text = render(home.server, home.ca_pem, tenant, user, issued)
        if output is None:
            typer.echo(text, nl=False)
            return
        output.touch(mode=0o600)
        output.write_text(text)
        typer.echo(f"wrote {output}", err=True)


@app.command()
def revoke(
    tenant: TenantArgument,
    user: Annotated[
        str | None, typer.Option(help="Only this user's certificates; default: every user's.")
    ] = None,
    serial: Annotated[
        str | None, typer.Option(help="Only the certificate with this serial number, in hexadecimal digits.")
    ] = None,
    via: KubeconfigOption = None,
) -> None:
    """Revoke the client certificates that users of TENANT have now; their open connections are closed."""
    import time

    from alcove.api import meta
    from alcove.cli import revocation
    from alcove.cli.session import CliSession

    with exit_on_error():
        if serial and user:
            raise CliError("use either --user or --serial", ExitCode.USAGE)
        if tenant == "system" and not (user or serial):
            raise CliError("ring0's components would be cut off: use --user or --serial", ExitCode.USAGE)
        moment = revocation.next_second()
        entry: Object = {"serialNumber": serial} if serial else {"issuedBefore": meta.format_time(moment)}
        if user:
            entry["user"] = user
        revocation.revoke(CliSession(via), tenant, entry, moment)
        # A certificate that is requested when this command has ended is not revoked.
        time.sleep(max(moment - time.time(), 0.0))
    whose = f"certificate {serial}" if serial else f"certificates of {user or 'all users'}"
    typer.echo(f"tenant/{tenant}: {whose} revoked; to get a new one: alcove tenant kubeconfig {tenant}")


for command in (
    move.move,
    sleep.sleep,
    sleep.wake,
    backup_verb.backup,
    backup_verb.restore,
    backup_verb.clone,
):
    app.command()(command)
