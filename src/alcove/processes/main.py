"""The `alcove` command: every verb, and every process it can start. Heavy imports wait until a verb needs them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from pathlib import Path
from typing import Annotated

import typer

from alcove.cli import tenant

app = typer.Typer(
    name="alcove",
    help="Hard multi-tenancy for Kubernetes: every tenant its own API, networks, DNS and share.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(tenant.app, name="tenant")


def default_data() -> Path:
    """Where a cluster keeps its state when nobody says: the user's state directory."""
    return Path.home() / ".local" / "state" / "alcove"


@app.command()
def apiserver(
    data: Annotated[
        Path | None,
        typer.Option(help="Directory of the store, keys and certificates [~/.local/state/alcove]."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 6443,
    name: Annotated[
        list[str] | None, typer.Option(help="Further name or address clients use; repeatable.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="YAML list of static tokens: token, user, tenant, groups.")
    ] = None,
    etcd: Annotated[
        list[str] | None,
        typer.Option(
            help="Endpoint (host:port) of the cluster's own etcd, for several API servers; repeatable."
        ),
    ] = None,
    etcd_pki: Annotated[
        Path | None, typer.Option(help="Directory with ca.crt, client.crt and client.key for etcd.")
    ] = None,
    tenant_daemonsets: Annotated[
        bool, typer.Option("--tenant-daemonsets", help="Tenants may have DaemonSets too.")
    ] = False,
    pod_security_ceiling: Annotated[
        str, typer.Option(help="Most that tenants' pods may have: privileged, baseline or restricted.")
    ] = "baseline",
    webhook_network: Annotated[
        list[str] | None,
        typer.Option(help="Private network that tenants' webhooks may be in all the same; repeatable."),
    ] = None,
) -> None:
    """Serve the tenancy-native Kubernetes API."""
    from alcove.apiserver.admission.order import Settings
    from alcove.apiserver.admission.podsecurity.levels import parse_level
    from alcove.apiserver.outbound.addresses import networks
    from alcove.processes.apiserver import Config

    ceiling = parse_level(pod_security_ceiling)
    if ceiling is None:
        raise typer.BadParameter(f"{pod_security_ceiling} is no level of pod security")
    try:
        allowed = networks(webhook_network or ())
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    config = Config(
        data=data or default_data(),
        host=host,
        port=port,
        hosts=tuple(name or ()),
        etcd=tuple(etcd or ()),
        etcd_pki=etcd_pki,
        tokens=token_file,
        admission=Settings(pod_security_ceiling=ceiling, tenant_daemon_sets=tenant_daemonsets),
        webhook_networks=allowed,
    )
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        _run_apiserver(config)
    except OSError as error:
        raise typer.Exit(_fail(f"cannot serve on {host}:{port}: {error.strerror or error}")) from error


def _run_apiserver(config: object) -> None:
    import uvloop

    from alcove.processes.apiserver import Config, serve, write_admin_kubeconfig

    assert isinstance(config, Config)

    async def run() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with serve(config) as running:
            path = write_admin_kubeconfig(config, running)
            typer.echo(f"serving {running.url}  KUBECONFIG={path}")
            await stop.wait()

    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(run())


@app.command()
def controllers(
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Ring0's kubeconfig; default $KUBECONFIG or ~/.kube/config.")
    ] = None,
    default_network_template_path: Annotated[
        Path | None,
        typer.Option(
            help="JSON or YAML of every new tenant's network `default`; `{{.}}` is the tenant's name."
        ),
    ] = None,
    probe_port: Annotated[
        int | None, typer.Option(help="Port on loopback for /metrics, /healthz and /readyz.")
    ] = None,
    lease_seconds: Annotated[
        float, typer.Option(min=1, help="How long the others wait for a leader that no longer answers.")
    ] = 15.0,
) -> None:
    """Run every controller, in one process at a time."""
    from alcove.processes.controllers import main as run_controllers

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    if told := run_controllers(kubeconfig, default_network_template_path, probe_port, lease_seconds):
        raise typer.Exit(_fail(told))


@app.command()
def scheduler(
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Ring0's kubeconfig; default $KUBECONFIG or ~/.kube/config.")
    ] = None,
    plane: Annotated[
        list[str] | None,
        typer.Option(help="A dedicated tenant's API server, as TENANT=KUBECONFIG; repeatable."),
    ] = None,
    fair: Annotated[
        bool, typer.Option("--fair/--first-come", help="Fair between tenants, or the oldest pod first.")
    ] = True,
    probe_port: Annotated[
        int | None, typer.Option(help="Port on loopback for /metrics, /healthz and /readyz.")
    ] = None,
    lease_seconds: Annotated[
        float, typer.Option(min=1, help="How long the others wait for a leader that no longer answers.")
    ] = 15.0,
) -> None:
    """Place pods of all planes on nodes, in one process at a time."""
    from alcove.api.ids import TenantId
    from alcove.client.kubeconfig import default_path
    from alcove.controllers.leader import Timing
    from alcove.processes.scheduler import Config
    from alcove.processes.scheduler import main as run_scheduler

    pairs = [each.partition("=") for each in plane or ()]
    if not all(name and path for name, _, path in pairs):
        raise typer.BadParameter("a plane is given as TENANT=KUBECONFIG")
    config = Config(
        kubeconfig=kubeconfig or default_path(),
        planes={TenantId(name): Path(path) for name, _, path in pairs},
        is_fair=fair,
        probe_port=probe_port,
        timing=Timing.of(lease_seconds),
    )
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    if told := run_scheduler(config):
        raise typer.Exit(_fail(told))


DataOption = Annotated[
    Path | None, typer.Option("--data", help="Directory of the cluster's state [~/.local/state/alcove].")
]


@app.command()
def up(data: DataOption = None, port: Annotated[int, typer.Option(help="Port of the API.")] = 6443) -> None:
    """Start this machine's cluster in the background, and say how to reach it."""
    from alcove.processes import up as cluster

    place = data or default_data()
    try:
        started = cluster.start(place, port)
    except cluster.NotUp as error:
        raise typer.Exit(_fail(str(error))) from error
    typer.echo("up" if started else "already up")
    cluster.describe(place)


@app.command()
def down(data: DataOption = None) -> None:
    """Stop this machine's cluster; its state stays."""
    from alcove.processes import up as cluster

    try:
        stopped = cluster.stop(data or default_data())
    except cluster.NotUp as error:
        raise typer.Exit(_fail(str(error))) from error
    typer.echo("down" if stopped else "was not up")


@app.command()
def status(data: DataOption = None) -> None:
    """Show what of this machine's cluster runs; exits with 1 if nothing does."""
    from alcove.processes import up as cluster

    found = cluster.running(data or default_data())
    for name, pid in found.items():
        typer.echo(f"{name:14}{pid}")
    if not found:
        raise typer.Exit(_fail("not up; `alcove up` starts it"))


def _fail(message: str) -> int:
    typer.secho(f"error: {message}", err=True, fg=typer.colors.RED)
    return 1


def main() -> None:
    app()


if __name__ == "__main__":
    main()
