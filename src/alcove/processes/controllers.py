"""`alcove controllers`: runs all controllers over all planes, in the process that holds the lease.

With several shards (`--shards`) a process runs them for the tenants of each shard whose lease it holds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import typer
from msgspec import structs

from alcove.api.errors import ApiError
from alcove.api.tenant_shards import TenantShard
from alcove.client import fencing
from alcove.client.client import Client
from alcove.client.errors import ClientError
from alcove.client.keys import HOME, PlaneId
from alcove.client.kubeconfig import KubeconfigUser
from alcove.client.plane_joining import PlaneJoining
from alcove.client.planes import Planes
from alcove.client.pool import DEDICATED, HttpPool
from alcove.component.tasks import BackgroundTasks
from alcove.controllers.all import CONTROLLERS
from alcove.controllers.controller import ControllerOptions
from alcove.controllers.metrics import ControllerMetrics
from alcove.controllers.runner import ControllerRunner, work
from alcove.controllers.tenants.template import BadTemplate, NetworkTemplate
from alcove.processes.leadership import LeaderConfig, LeaderTerm, LeaderWork, run_as_leader

log = logging.getLogger(__name__)

NAME = "alcove-controllers"
AGAIN_SECONDS = 1.0


class ControllersConfig(LeaderConfig, frozen=True, kw_only=True):
    options: ControllerOptions = ControllerOptions()


def run_controllers(config: ControllersConfig) -> str:
    """Runs until SIGINT or SIGTERM; returns an error message, or an empty string."""
    try:
        NetworkTemplate.load(config.options.default_network_template)
    except BadTemplate as error:
        return str(error)
    metrics = ControllerMetrics(is_sharded=config.shards > 1)
    leader_work = LeaderWork(
        lease=NAME,
        user_agent=NAME,
        metrics=metrics.text,
        run=lambda term: _run(term, config.options, metrics),
        # Also after losing the lease: the new leader needs the API server's capacity first.
        pause_seconds=AGAIN_SECONDS,
        has_shards=True,
    )
    return run_as_leader(config, leader_work)


async def _run(term: LeaderTerm, options: ControllerOptions, metrics: ControllerMetrics) -> None:
    """Runs the controllers until cancelled, or until the API server is unreachable before they started."""
    authorities = {HOME: term.user.ca_pem.decode()}

    def on_plane_change(plane: PlaneId, user: KubeconfigUser | None) -> None:
        if user is None:
            authorities.pop(plane, None)
        else:
            authorities[plane] = user.ca_pem.decode()

    async def follow(planes: Planes, tasks: BackgroundTasks) -> None:
        joining = PlaneJoining(planes, tasks, term.leader.plane_fence, term.leader.confirm)
        await term.dedicated.follow(planes, joining, tasks, on_plane_change, planes.shard)

    options = structs.replace(options, connect_plane=partial(_connect, term))
    runner = ControllerRunner(
        controllers=CONTROLLERS, clock=time.time, authorities=authorities, options=options, metrics=metrics
    )
    try:
        await work(runner, term.planes, term.home, lambda: typer.echo(_announcement(term.shard)), follow)
    except* (ClientError, ApiError) as errors:
        log.warning(
            "controllers stopped; restarting",
            extra={"errors": [str(error) for error in errors.exceptions]},
        )


def _announcement(shard: TenantShard) -> str:
    return "leading" if shard.count == 1 else f"leading shard {shard}"


@asynccontextmanager
async def _connect(term: LeaderTerm, url: str, authority: str) -> AsyncIterator[Client]:
    """A client of a dedicated plane's API server, which from then on refuses writes of earlier leaders."""
    user = structs.replace(term.user, server=url, ca_pem=authority.encode(), tenant="")
    pool = HttpPool(user, DEDICATED)
    leader = term.leader
    try:
        unfenced = Client(pool, user_agent=NAME, permitted=leader.check)
        await fencing.take(unfenced, leader.plane_fence, leader.confirm)
        yield Client(pool, user_agent=NAME, permitted=leader.check, fence=leader.plane_fence)
    finally:
        await pool.close()
