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
from alcove.client.joining import Joining
from alcove.client.keys import HOME, PlaneId
from alcove.client.kubeconfig import Account
from alcove.client.leader import Leader, Timing
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.client.transport import Transport
from alcove.component.tasks import BackgroundTasks
from alcove.controllers.all import CONTROLLERS
from alcove.controllers.controller import Options
from alcove.controllers.metrics import Metrics
from alcove.controllers.tenants.template import BadTemplate, NetworkTemplate
from alcove.controllers.work import Work, work
from alcove.processes.following import Dedicated
from alcove.processes.leading import identity, run_until_signal, until_lost
from alcove.processes.memory import keep_trimmed
from alcove.processes.probes import serve_probes

log = logging.getLogger(__name__)

LEASE = "alcove-controllers"
USER_AGENT = "alcove-controllers"
AGAIN_SECONDS = 1.0


class Config(Struct, frozen=True, kw_only=True):
    kubeconfig: Path
    planes: Mapping[TenantId, Path] = {}
    """Kubeconfigs of dedicated tenants' planes."""
    planes_folder: Path | None = None
    """Where kubeconfigs of further planes come and go."""
    options: Options = Options()
    probe_port: int | None = None
    """Serves /metrics, /healthz and /readyz on loopback; None: nothing is served."""
    timing: Timing = Timing()


async def run(config: Config, leads: Callable[[], None] = lambda: None) -> None:
    """Runs until cancelled; `leads` is called each time this process begins to lead, all mirrors synced."""
    account = kubeconfig.load(config.kubeconfig)
    # The lease has a connection of its own: it must not wait for anybody's requests.
    transport, own = HttpPool(account), HttpPool(account, connections_max=1)
    dedicated = Dedicated.load(config.planes, config.planes_folder)
    metrics = Metrics()
    wanted = Work(
        controllers=CONTROLLERS,
        clock=time.time,
        authorities={HOME: account.ca_pem.decode()},
        options=config.options,
        metrics=metrics,
    )
    leader = Leader(Client(own, user_agent=USER_AGENT), LEASE, identity(), time.time, config.timing)
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
    leader: Leader, wanted: Work, transport: Transport, dedicated: Dedicated, leads: Callable[[], None]
) -> None:
    """One term as the leader, until the lease is lost or the server is away before work has begun."""

    def heard(plane: PlaneId, account: Account | None) -> None:
        if account is None:
            wanted.authorities.pop(plane, None)
        else:
            wanted.authorities[plane] = account.ca_pem.decode()

    def follow(planes: Planes, tasks: BackgroundTasks) -> None:
        dedicated.follow(Joining(planes, tasks, leader.fence, leader.confirm), tasks, heard)

    async with leader.leading() as lost:
        planes = Planes(user_agent=USER_AGENT, permitted=leader.check, fence=leader.fence)
        try:
            await until_lost(lost, work(wanted, planes, transport, leads, follow))
        except* (ClientError, ApiError) as errors:
            log.warning("work interrupted", extra={"errors": [str(error) for error in errors.exceptions]})
    # After losing the lease too: whoever took it needs the server more than we do.
    await asyncio.sleep(AGAIN_SECONDS)


def main(config: Config) -> str:
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
