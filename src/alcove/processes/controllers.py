"""`alcove controllers`: runs all controllers over all planes, in the process that holds the lease.

A process without the lease has no mirrors. It starts them when it becomes leader, so that everything
it acts on was read after the previous leader had stopped.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import typer
from msgspec import Struct

from alcove.api.errors import ApiError
from alcove.api.ids import TenantId
from alcove.client import kubeconfig
from alcove.client.client import Client
from alcove.client.errors import BadKubeconfig, ClientError
from alcove.client.keys import HOME, PlaneId
from alcove.client.kubeconfig import KubeconfigUser
from alcove.client.leader import LeaderElector, LeaderTiming
from alcove.client.plane_joining import PlaneJoining
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.client.transport import Transport
from alcove.component.tasks import BackgroundTasks
from alcove.controllers.all import CONTROLLERS
from alcove.controllers.controller import ControllerOptions
from alcove.controllers.metrics import ControllerMetrics
from alcove.controllers.runner import ControllerRunner, work
from alcove.controllers.tenants.template import BadTemplate, NetworkTemplate
from alcove.processes.leadership import identity, run_until_signal, until_lost
from alcove.processes.memory import keep_trimmed
from alcove.processes.plane_follower import DedicatedPlane
from alcove.processes.probes import serve_probes

log = logging.getLogger(__name__)

LEASE = "alcove-controllers"
USER_AGENT = "alcove-controllers"
AGAIN_SECONDS = 1.0


class ControllersConfig(Struct, frozen=True, kw_only=True):
    kubeconfig: Path
    planes: Mapping[TenantId, Path] = {}
    """Kubeconfigs of dedicated tenants' planes."""
    planes_directory: Path | None = None
    """Directory of further planes' kubeconfigs, followed while the process runs."""
    options: ControllerOptions = ControllerOptions()
    probe_port: int | None = None
    """Loopback port for /metrics, /healthz and /readyz. None to serve nothing."""
    timing: LeaderTiming = LeaderTiming()


async def run(config: ControllersConfig, leads: Callable[[], None] = lambda: None) -> None:
    """Runs until cancelled; `leads` is called each time this process leads and all mirrors are synced."""
    user = kubeconfig.load(config.kubeconfig)
    # The lease has its own connection: renewals must not wait for other requests.
    transport, lease_transport = HttpPool(user), HttpPool(user, connections_max=1)
    dedicated = DedicatedPlane.load(config.planes, config.planes_directory)
    metrics = ControllerMetrics()
    runner = ControllerRunner(
        controllers=CONTROLLERS,
        clock=time.time,
        authorities={HOME: user.ca_pem.decode()},
        options=config.options,
        metrics=metrics,
    )
    leader = LeaderElector(
        Client(lease_transport, user_agent=USER_AGENT), LEASE, identity(), time.time, config.timing
    )
    async with (
        serve_probes(config.probe_port, metrics.text, lambda: leader.is_leading),
        BackgroundTasks() as tasks,
    ):
        tasks.restart("memory trimming", keep_trimmed)
        try:
            while True:
                await _lead(leader, runner, transport, dedicated, leads)
        finally:
            for each in (transport, lease_transport):
                await each.close()


async def _lead(
    leader: LeaderElector,
    runner: ControllerRunner,
    transport: Transport,
    dedicated: DedicatedPlane,
    leads: Callable[[], None],
) -> None:
    """One term as leader, until the lease is lost, or the API server is unreachable before controllers
    started."""

    def on_plane_change(plane: PlaneId, user: KubeconfigUser | None) -> None:
        if user is None:
            runner.authorities.pop(plane, None)
        else:
            runner.authorities[plane] = user.ca_pem.decode()

    def follow(planes: Planes, tasks: BackgroundTasks) -> None:
        dedicated.follow(PlaneJoining(planes, tasks, leader.fence, leader.confirm), tasks, on_plane_change)

    async with leader.leading() as lost:
        planes = Planes(user_agent=USER_AGENT, permitted=leader.check, fence=leader.fence)
        try:
            await until_lost(lost, work(runner, planes, transport, leads, follow))
        except* (ClientError, ApiError) as errors:
            log.warning(
                "controllers stopped; restarting",
                extra={"errors": [str(error) for error in errors.exceptions]},
            )
    # Also after losing the lease: the new leader needs the API server's capacity first.
    await asyncio.sleep(AGAIN_SECONDS)


def run_controllers(config: ControllersConfig) -> str:
    """Runs until SIGINT or SIGTERM; returns an error message, or an empty string."""
    try:
        NetworkTemplate.load(config.options.default_network_template)
    except BadTemplate as error:
        return str(error)
    try:
        run_until_signal(run(config, lambda: typer.echo("leading")))
    except BadKubeconfig as error:
        return str(error)
    except OSError as error:
        return f"cannot serve probes on port {config.probe_port}: {error.strerror or error}"
    return ""
