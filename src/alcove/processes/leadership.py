"""Processes with leader election: work in terms, each until the lease is lost, and end on a signal.

A process without the lease holds no state. It reads all planes when it becomes leader, so that everything
it acts on was read after the previous leader had stopped.

Work can be divided into shards of tenants, each with a lease (`client/shard_leases.py`). A process leads in each shard that it
holds as if it were alone, with mirrors, a fence and terms of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import uvloop
from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.api.tenant_shards import TenantShard
from alcove.client import kubeconfig
from alcove.client.client import Client
from alcove.client.errors import BadKubeconfig
from alcove.client.kubeconfig import KubeconfigUser
from alcove.client.leader import LeaderElector, LeaderTiming
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool, RequestLimits
from alcove.client.shard_leases import ShardLeases
from alcove.component.tasks import BackgroundTasks
from alcove.processes.memory import keep_trimmed
from alcove.processes.plane_follower import DedicatedPlanes
from alcove.processes.priorities import COMPONENT_RAISED_BY, raise_thread_priority
from alcove.processes.probes import serve_probes

OTHER_DIVISION_SECONDS = 2.0
"""Up to this is waited before it is looked again whether another number of shards is in use."""


class LeaderConfig(Struct, frozen=True, kw_only=True):
    kubeconfig: Path
    planes: Mapping[TenantId, Path] = {}
    """Kubeconfigs of dedicated tenants' planes."""
    planes_directory: Path | None = None
    """Directory of further planes' kubeconfigs, followed while the process runs."""
    probe_port: int | None = None
    """Loopback port for /metrics, /healthz and /readyz. None to serve nothing."""
    timing: LeaderTiming = LeaderTiming()
    shards: int = 1
    """Into how many shards of tenants the work is divided; the same for all processes."""


class LeaderTerm(Struct, frozen=True, kw_only=True):
    """What a process works with for one term as leader."""

    leader: LeaderElector
    planes: Planes
    """Empty at first; its writes carry the fence of this term."""
    user: KubeconfigUser
    """The process's user on the home plane."""
    home: HttpPool
    dedicated: DedicatedPlanes
    shard: TenantShard
    """The tenants to work for."""


class LeaderWork(Struct, frozen=True, kw_only=True):
    """What a process does as leader."""

    lease: str
    user_agent: str
    metrics: Callable[[], bytes]
    run: Callable[[LeaderTerm], Coroutine[Any, Any, None]]
    """One term; cancelled when the lease is lost. What it raises ends the process."""
    pause_seconds: float = 0.0
    """Pause after each term."""
    has_shards: bool = False
    """Whether processes may divide the work: then all have to divide it alike."""


def run_as_leader(config: LeaderConfig, work: LeaderWork) -> str:
    """Runs until SIGINT or SIGTERM; returns an error message, or an empty string."""
    try:
        raise_thread_priority(COMPONENT_RAISED_BY)
        run_until_signal(_lead(config, work))
    except BadKubeconfig as error:
        return str(error)
    except OSError as error:
        return f"cannot serve probes on port {config.probe_port}: {error.strerror or error}"
    return ""


async def _lead(config: LeaderConfig, work: LeaderWork) -> None:
    """Leads in each shard term after term, until cancelled."""
    user = kubeconfig.load(config.kubeconfig)
    # The lease has its own connection: renewals must not wait for other requests.
    home, lease_transport = HttpPool(user), HttpPool(user, RequestLimits(connections_max=1))
    dedicated = DedicatedPlanes.load(config.kubeconfig, config.planes, config.planes_directory)
    lease_client = Client(lease_transport, user_agent=work.user_agent)
    leases = ShardLeases(lease_client, work.lease, identity(), config.shards, time.time, config.timing)

    def term(index: int) -> LeaderTerm:
        leader, shard = leases.electors[index], TenantShard(index, config.shards)
        planes = Planes(
            user_agent=work.user_agent,
            permitted=leader.check,
            fence=leader.fence,
            plane_fence=leader.plane_fence,
            shard=shard if shard.count > 1 else None,
        )
        return LeaderTerm(
            leader=leader, planes=planes, user=user, home=home, dedicated=dedicated, shard=shard
        )

    async with serve_probes(config.probe_port, work.metrics, lambda: leases.held > 0):
        try:
            async with BackgroundTasks() as tasks:
                tasks.restart("memory trimming", keep_trimmed)
                if config.shards > 1:
                    tasks.restart("spreading of shards", leases.keep_spread)
                for index in range(config.shards):
                    tasks.fatal(f"shard {index}", _lead_shard(index, leases, work, term))
        finally:
            for transport in (home, lease_transport):
                await transport.close()


async def _lead_shard(
    index: int, leases: ShardLeases, work: LeaderWork, term: Callable[[int], LeaderTerm]
) -> None:
    """Leads in one shard term after term, until cancelled."""
    while True:
        pause_seconds = work.pause_seconds
        async with leases.electors[index].leading() as lost:
            if not work.has_shards or await leases.is_only_division():
                await until_lost(lost, work.run(term(index)))
            else:
                # Of two processes that have just seen each other, one tries again first.
                pause_seconds += random.uniform(0, OTHER_DIVISION_SECONDS)
        await asyncio.sleep(pause_seconds)


def identity() -> str:
    """This process's identity in the lease, HOST_PID_RANDOM."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


async def until_lost(lost: asyncio.Event, working: Coroutine[Any, Any, None]) -> None:
    """Runs `working` until the lease is lost. Raises what `working` raises."""
    work_task, lost_task = asyncio.create_task(working), asyncio.create_task(lost.wait())
    try:
        await asyncio.wait((work_task, lost_task), return_when=asyncio.FIRST_COMPLETED)
        if work_task.done():
            work_task.result()
    finally:
        for task in (work_task, lost_task):
            task.cancel()
        await asyncio.wait((work_task, lost_task))


def run_until_signal(running: Coroutine[Any, Any, None]) -> None:
    """Runs the coroutine in a new event loop; SIGINT and SIGTERM cancel it. Raises what `running` raises."""

    async def until_signal() -> None:
        working = asyncio.create_task(running)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, working.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await working

    uvloop.run(until_signal())
