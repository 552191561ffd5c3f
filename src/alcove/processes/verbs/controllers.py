"""The command `alcove controllers`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alcove.api.tenant_shards import SHARDS_MAX
from alcove.cli.errors import fail
from alcove.component.logs import Form, Level, configure
from alcove.processes.verbs.options import (
    FormatOption,
    LeaseSeconds,
    LevelOption,
    Planes,
    PlanesDirectory,
    ProbePort,
    Ring0Kubeconfig,
    paths_of,
)


def controllers(
    kubeconfig: Ring0Kubeconfig = None,
    plane: Planes = None,
    planes: PlanesDirectory = None,
    default_network_template_path: Annotated[
        Path | None,
        typer.Option(
            help="JSON or YAML template of new tenants' network `default`; `{{.}}` is the tenant's name."
        ),
    ] = None,
    usage_retention_days: Annotated[
        int, typer.Option(min=1, max=400, help="Days that records of what tenants have used are kept.")
    ] = 32,
    shards: Annotated[
        int,
        typer.Option(
            min=1,
            max=SHARDS_MAX,
            help="Shards of tenants that the work is divided into. Processes with the same number share them.",
        ),
    ] = 1,
    usage_interval: Annotated[
        int, typer.Option(min=1, max=600, help="Seconds between sums of what nodes report that tenants use.")
    ] = 300,
    probe_port: ProbePort = None,
    lease_seconds: LeaseSeconds = 15.0,
    log_level: LevelOption = Level.INFO,
    log_format: FormatOption = Form.TEXT,
) -> None:
    """Run all controllers, with leader election. With `--shards N`, N processes can each work for a part of the tenants."""
    from alcove.client.kubeconfig import default_path
    from alcove.client.leader import LeaderTiming
    from alcove.controllers.controller import ControllerOptions
    from alcove.processes.controllers import ControllersConfig, run_controllers
    from alcove.processes.plane_certificates import plane_certificates
    from alcove.processes.tenant_backups import backup_runner

    own = kubeconfig or default_path()
    config = ControllersConfig(
        kubeconfig=own,
        planes=paths_of(plane),
        planes_directory=planes,
        options=ControllerOptions(
            default_network_template=default_network_template_path,
            plane_certificates=plane_certificates(),
            usage_retention_days=usage_retention_days,
            usage_interval_seconds=usage_interval,
            run_backup=backup_runner(own),
        ),
        probe_port=probe_port,
        timing=LeaderTiming.of(lease_seconds),
        shards=shards,
    )
    configure("controllers", log_level, log_format)
    if message := run_controllers(config):
        raise fail(message)
