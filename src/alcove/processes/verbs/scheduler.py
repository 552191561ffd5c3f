"""The command `alcove scheduler`."""

from __future__ import annotations

from typing import Annotated

import typer

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


def scheduler(
    kubeconfig: Ring0Kubeconfig = None,
    plane: Planes = None,
    planes: PlanesDirectory = None,
    fair: Annotated[
        bool,
        typer.Option(
            "--fair/--first-come", help="Share fairly between tenants, or schedule the oldest pod first."
        ),
    ] = True,
    probe_port: ProbePort = None,
    lease_seconds: LeaseSeconds = 15.0,
    log_level: LevelOption = Level.INFO,
    log_format: FormatOption = Form.TEXT,
) -> None:
    """Schedule the pods of all planes, with leader election."""
    from alcove.client.kubeconfig import default_path
    from alcove.client.leader import LeaderTiming
    from alcove.processes.scheduler import SchedulerConfig, run_scheduler

    config = SchedulerConfig(
        kubeconfig=kubeconfig or default_path(),
        planes=paths_of(plane),
        planes_directory=planes,
        is_fair=fair,
        probe_port=probe_port,
        timing=LeaderTiming.of(lease_seconds),
    )
    configure("scheduler", log_level, log_format)
    if message := run_scheduler(config):
        raise fail(message)
