"""The verb `alcove controllers`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alcove.cli.errors import fail
from alcove.component.logs import Form, Level, configure
from alcove.processes.verbs.logs import FormatOption, LevelOption
from alcove.processes.verbs.planes import Planes, PlanesFolder, paths_of


def controllers(
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Ring0's kubeconfig; default $KUBECONFIG or ~/.kube/config.")
    ] = None,
    plane: Planes = None,
    planes: PlanesFolder = None,
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
    log_level: LevelOption = Level.INFO,
    log_format: FormatOption = Form.TEXT,
) -> None:
    """Run every controller, in one process at a time."""
    from alcove.client.kubeconfig import default_path
    from alcove.client.leader import LeaderTiming
    from alcove.controllers.controller import ControllerOptions
    from alcove.processes.controllers import ControllersConfig, run_controllers

    config = ControllersConfig(
        kubeconfig=kubeconfig or default_path(),
        planes=paths_of(plane),
        planes_folder=planes,
        options=ControllerOptions(default_network_template=default_network_template_path),
        probe_port=probe_port,
        timing=LeaderTiming.of(lease_seconds),
    )
    configure("controllers", log_level, log_format)
    if message := run_controllers(config):
        raise fail(message)
