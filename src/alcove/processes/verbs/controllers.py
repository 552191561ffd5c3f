"""The command `alcove controllers`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alcove.cli.errors import fail
from alcove.component.logs import Form, Level, configure
from alcove.processes.verbs.logs import FormatOption, LevelOption
from alcove.processes.verbs.planes import Planes, PlanesDirectory, paths_of


def controllers(
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Kubeconfig of ring0; default: $KUBECONFIG or ~/.kube/config.")
    ] = None,
    plane: Planes = None,
    planes: PlanesDirectory = None,
    default_network_template_path: Annotated[
        Path | None,
        typer.Option(
            help="JSON or YAML template of new tenants' network `default`; `{{.}}` is the tenant's name."
        ),
    ] = None,
    probe_port: Annotated[
        int | None, typer.Option(help="Loopback port for /metrics, /healthz and /readyz.")
    ] = None,
    lease_seconds: Annotated[
        float,
        typer.Option(
            min=1, help="Lease duration: seconds until another process replaces an unresponsive leader."
        ),
    ] = 15.0,
    log_level: LevelOption = Level.INFO,
    log_format: FormatOption = Form.TEXT,
) -> None:
    """Run all controllers, with leader election."""
    from alcove.client.kubeconfig import default_path
    from alcove.client.leader import LeaderTiming
    from alcove.controllers.controller import ControllerOptions
    from alcove.processes.controllers import ControllersConfig, run_controllers

    config = ControllersConfig(
        kubeconfig=kubeconfig or default_path(),
        planes=paths_of(plane),
        planes_directory=planes,
        options=ControllerOptions(default_network_template=default_network_template_path),
        probe_port=probe_port,
        timing=LeaderTiming.of(lease_seconds),
    )
    configure("controllers", log_level, log_format)
    if message := run_controllers(config):
        raise fail(message)
