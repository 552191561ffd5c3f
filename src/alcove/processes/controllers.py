"""`alcove controllers`: every controller, over all planes, in the process that holds the lease.

A process without the lease holds no mirrors: it starts them when it begins to lead, so that everything
it acts on was read after the process before it had stopped.
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
    planes_folder: Path | None = None
    """Where kubeconfigs of further planes come and go."""
    options: ControllerOptions = ControllerOptions()
    probe_port: int | None = None
    """Serves /metrics, /healthz and /readyz on loopback; None: nothing is served."""
    timing: LeaderTiming = LeaderTiming()


async def run(config: ControllersConfig, leads: Callable[[], None] = lambda: None) -> None:
    """Runs until cancelled; `leads` is called each time this process begins to lead, all mirrors synced."""
    user = kubeconfig.load(config.kubeconfig)
    # The lease has a connection of its own: it must not wait for anybody's requests.
    transport, own = HttpPool(user), HttpPool(user, connections_max=1)
    dedicated = DedicatedPlane.load(config.planes, config.planes_folder)
    metrics = ControllerMetrics()
    wanted = ControllerRunner(
        controllers=CONTROLLERS,
        clock=time.time,
        authorities={HOME: user.ca_pem.decode()},
        options=config.options,
        metrics=metrics,
    )
    leader = LeaderElector(Client(own, user_agent=USER_AGENT), LEASE, identity(), time.time, config.timing)
    async with (
        serve_probes(config.probe_port, metrics.text, lambda: leader.is_leading),
        BackgroundTasks() as tasks,
    ):
        tasks.restart("memory trimming", keep_trimmed)
        try:
            while True:
                await _lead(leader, wanted, transport, dedicated, leads)
        finally:
            for each in (transport, own):
                await each.close()


async def _lead(
    leader: LeaderElector,
    wanted: ControllerRunner,
    transport: Transport,
    dedicated: DedicatedPlane,
    leads: Callable[[], None],
) -> None:
    """One term as the leader, until the lease is lost or the server is away before work has begun."""

    def heard(plane: PlaneId, user: KubeconfigUser | None) -> None:
        if user is None:
            wanted.authorities.pop(plane, None)
        else:
            wanted.authorities[plane] = user.ca_pem.decode()

    def follow(planes: Planes, tasks: BackgroundTasks) -> None:
        dedicated.follow(PlaneJoining(planes, tasks, leader.fence, leader.confirm), tasks, heard)

    async with leader.leading() as lost:
        planes = Planes(user_agent=USER_AGENT, permitted=leader.check, fence=leader.fence)
        try:
            await until_lost(lost, work(wanted, planes, transport, leads, follow))
        except* (ClientError, ApiError) as errors:
            log.warning("work interrupted", extra={"errors": [str(error) for error in errors.exceptions]})
    # After losing the lease too: whoever took it needs the server more than we do.
    await asyncio.sleep(AGAIN_SECONDS)


def run_controllers(config: ControllersConfig) -> str:
    """Runs until a signal; returns what went wrong, or nothing."""
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
