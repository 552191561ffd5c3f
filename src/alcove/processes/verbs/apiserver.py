"""The command `alcove apiserver`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alcove.cli.data_directories import default_data
from alcove.cli.errors import fail
from alcove.component.logs import Form, Level, configure
from alcove.processes.verbs.options import FormatOption, LevelOption

if TYPE_CHECKING:
    import asyncio

    from alcove.apiserver.auth.certificates import CertificateAuthority
    from alcove.processes.apiserver_config import ApiServerConfig

log = logging.getLogger(__name__)


def apiserver(
    data: Annotated[
        Path | None,
        typer.Option(help="Directory for the store, keys and certificates [~/.local/state/alcove]."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.")] = 6443,
    listen: Annotated[
        list[str] | None, typer.Option(help="Additional address to listen on, at the same port; repeatable.")
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(help="Additional name or address in the serving certificate; repeatable."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes that share the port, each with a cache of its own [cores - 1; 1 with --tenant].",
        ),
    ] = None,
    tenant: Annotated[
        str, typer.Option(help="Serve this tenant alone, as its dedicated API server; needs --keys.")
    ] = "",
    keys: Annotated[
        Path | None,
        typer.Option(
            help="Directory with ca.crt, ca.key, sa.key, ring0-ca.crt and node-ca.crt of a dedicated API server; only read."
        ),
    ] = None,
    closed: Annotated[
        bool,
        typer.Option(
            "--closed",
            help="With --tenant, at the first start: serve nothing before ring0 has moved the tenant's objects here.",
        ),
    ] = False,
    token_file: Annotated[
        Path | None, typer.Option(help="YAML file with static tokens: a list of token, user, tenant, groups.")
    ] = None,
    authentication_config: Annotated[
        Path | None,
        typer.Option(
            help="AuthenticationConfiguration file with the OIDC issuers of ring0's users; read again when it changes."
        ),
    ] = None,
    etcd: Annotated[
        list[str] | None,
        typer.Option(help="Endpoint (host:port) of the cluster's etcd, for several API servers; repeatable."),
    ] = None,
    etcd_pki: Annotated[
        Path | None, typer.Option(help="Directory with ca.crt, client.crt and client.key for etcd.")
    ] = None,
    etcd_server_name: Annotated[
        str, typer.Option(help="Name in etcd's certificates, if it is not that of the endpoint.")
    ] = "",
    encryption_provider_config: Annotated[
        Path | None,
        typer.Option(
            help="EncryptionConfiguration file for stored objects [encryption.yaml of the data directory, if it exists]."
        ),
    ] = None,
    tenant_daemonsets: Annotated[
        bool, typer.Option("--tenant-daemonsets", help="Allow DaemonSets in tenants.")
    ] = False,
    pod_security_ceiling: Annotated[
        str,
        typer.Option(
            help="Highest Pod Security level allowed in tenants: privileged, baseline or restricted."
        ),
    ] = "baseline",
    webhook_network: Annotated[
        list[str] | None,
        typer.Option(help="Private network (CIDR) in which tenants' webhooks are allowed; repeatable."),
    ] = None,
    tenant_connections_max: Annotated[
        int, typer.Option(min=1, help="Connections that a tenant's clients may have open to this server.")
    ] = 1_000,
    tenant_watches_max: Annotated[
        int, typer.Option(min=1, help="Watches that a tenant may have open on this server.")
    ] = 800,
    tenant_buffer_mib_max: Annotated[
        int,
        typer.Option(
            min=4, help="Memory for a tenant's bodies, large responses, slow watches and history, in MiB."
        ),
    ] = 128,
    tenant_stored_mib_max: Annotated[
        int, typer.Option(min=1, help="Memory, and disk of the store, for all objects of a tenant, in MiB.")
    ] = 2_048,
    stalls: Annotated[
        Path | None,
        typer.Option(
            help="For debugging: append what this server does whenever it stalls for more than 25 ms to this file."
        ),
    ] = None,
    log_level: LevelOption = Level.INFO,
    log_format: FormatOption = Form.TEXT,
) -> None:
    """Serve the tenancy-native Kubernetes API."""
    from alcove.api.destinations import networks
    from alcove.api.ids import SYSTEM, TenantId
    from alcove.apiserver.admission.order import AdmissionSettings
    from alcove.apiserver.admission.podsecurity.levels import parse_level
    from alcove.apiserver.buffers import BufferLimits
    from alcove.processes.apiserver_config import ApiServerConfig
    from alcove.processes.cores import default_workers, usable_cores
    from alcove.processes.worker_pool import WorkerFailed
    from alcove.store.base import StoreError

    ceiling = parse_level(pod_security_ceiling)
    if ceiling is None:
        raise typer.BadParameter(
            f'"{pod_security_ceiling}" is not a Pod Security level: use privileged, baseline or restricted'
        )
    if bool(tenant) != (keys is not None):
        raise typer.BadParameter("--tenant and --keys belong together")
    if closed and not tenant:
        raise typer.BadParameter("--closed is for a dedicated API server: use it with --tenant")
    if authentication_config is not None:
        if tenant:
            raise typer.BadParameter("--authentication-config is for ring0's API server, not with --tenant")
        _check_authentication(authentication_config)
    try:
        allowed = networks(webhook_network or ())
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    config = ApiServerConfig(
        data=data or default_data(),
        host=host,
        port=port,
        hosts=(*(listen or ()), *(name or ())),
        listen=tuple(listen or ()),
        etcd=tuple(etcd or ()),
        etcd_pki=etcd_pki,
        etcd_server_name=etcd_server_name,
        encryption=encryption_provider_config,
        keys=keys,
        is_closed=closed,
        tokens=token_file,
        authentication=authentication_config,
        admission=AdmissionSettings(
            home=TenantId(tenant) if tenant else SYSTEM,
            pod_security_ceiling=ceiling,
            tenant_daemon_sets=tenant_daemonsets,
        ),
        webhook_networks=allowed,
        connections_per_tenant_max=tenant_connections_max,
        watches_per_tenant_max=tenant_watches_max,
        stored_bytes_per_tenant_max=tenant_stored_mib_max << 20,
        buffers=BufferLimits(tenant_bytes_max=tenant_buffer_mib_max << 20),
    )
    configure("apiserver", log_level, log_format)
    count = workers or (1 if tenant else default_workers(usable_cores()))
    try:
        if count == 1:
            _run_apiserver(config, stalls)
        else:
            _run_workers(config, count, log_level, log_format, stalls)
    except (StoreError, WorkerFailed) as error:
        raise fail(str(error)) from error
    except OSError as error:
        raise fail(f"cannot serve on {host}:{port}: {error.strerror or error}") from error
    except ExceptionGroup as errors:
        lost, others = errors.split(StoreError)
        if lost is None or others is not None:
            raise
        log.critical("lost the store; exiting", extra={"error": str(lost.exceptions[0])})
        raise typer.Exit(1) from errors


def _check_authentication(path: Path) -> None:
    """Ends the command, before any worker is started, if the file is not valid."""
    from alcove.apiserver.auth.oidc import config_file

    try:
        config_file.load(path)
    except config_file.AuthenticationConfigError as error:
        raise fail(str(error)) from error


def _run_apiserver(config: ApiServerConfig, stalls: Path | None) -> None:
    from alcove.component.stall_recorder import record_stalls
    from alcove.component.tasks import BackgroundTasks
    from alcove.processes.apiserver import serve

    async def run(stop: asyncio.Event) -> None:
        async with serve(config) as running, BackgroundTasks() as tasks:
            _announce(config, running.url, running.authority)
            tasks.fatal("watch cache", running.lost())
            if stalls is not None:
                tasks.fatal("stall recorder", record_stalls(stalls))
            await stop.wait()
            tasks.cancel()

    _run(run)


def _run_workers(config: ApiServerConfig, count: int, level: Level, form: Form, stalls: Path | None) -> None:
    from alcove.processes.worker_pool import serve_with_workers

    async def run(stop: asyncio.Event) -> None:
        async with serve_with_workers(config, count, level, form, stalls) as running:
            _announce(config, running.url, running.authority)
            await stop.wait()

    _run(run)


def _announce(config: ApiServerConfig, url: str, authority: CertificateAuthority) -> None:
    from alcove.processes.apiserver_config import write_admin_kubeconfig

    path = write_admin_kubeconfig(config, url, authority)
    typer.echo(f"serving {url}  KUBECONFIG={path}")


def _run(serve: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Runs until SIGINT or SIGTERM, which set the event."""
    import asyncio
    import contextlib
    import signal

    import uvloop

    from alcove.processes.memory import bound_collections
    from alcove.processes.open_files import raise_open_files_limit
    from alcove.processes.priorities import SERVER_RAISED_BY, raise_thread_priority

    bound_collections()
    raise_open_files_limit()
    raise_thread_priority(SERVER_RAISED_BY)

    async def run() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve(stop)

    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(run())
