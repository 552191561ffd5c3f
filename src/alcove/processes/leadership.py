"""Processes with leader election: work in terms, each until the lease is lost, and end on a signal.

A process without the lease holds no state. It reads all planes when it becomes leader, so that everything
it acts on was read after the previous leader had stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
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
from alcove.client import kubeconfig
from alcove.client.client import Client
from alcove.client.errors import BadKubeconfig
from alcove.client.kubeconfig import KubeconfigUser
from alcove.client.leader import LeaderElector, LeaderTiming
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool, RequestLimits
from alcove.component.tasks import BackgroundTasks
from alcove.processes.memory import keep_trimmed
from alcove.processes.plane_follower import DedicatedPlanes
from alcove.processes.probes import serve_probes


class LeaderConfig(Struct, frozen=True, kw_only=True):
    kubeconfig: Path
    planes: Mapping[TenantId, Path] = {}
    """Kubeconfigs of dedicated tenants' planes."""
    planes_directory: Path | None = None
    """Directory of further planes' kubeconfigs, followed while the process runs."""
    probe_port: int | None = None
    """Loopback port for /metrics, /healthz and /readyz. None to serve nothing."""
    timing: LeaderTiming = LeaderTiming()


class LeaderTerm(Struct, frozen=True, kw_only=True):
    """What a process works with for one term as leader."""

    leader: LeaderElector
    planes: Planes
    """Empty at first; its writes carry the fence of this term."""
    user: KubeconfigUser
    """The process's user on the home plane."""
    home: HttpPool
    dedicated: DedicatedPlanes


class LeaderWork(Struct, frozen=True, kw_only=True):
    """What a process does as leader."""

    lease: str
    user_agent: str
    metrics: Callable[[], bytes]
    run: Callable[[LeaderTerm], Coroutine[Any, Any, None]]
    """One term; cancelled when the lease is lost. What it raises ends the process."""
    pause_seconds: float = 0.0
    """Pause after each term."""


def run_as_leader(config: LeaderConfig, work: LeaderWork) -> str:
    """Runs until SIGINT or SIGTERM; returns an error message, or an empty string."""
    try:
        run_until_signal(_lead(config, work))
    except BadKubeconfig as error:
        return str(error)
    except OSError as error:
        return f"cannot serve probes on port {config.probe_port}: {error.strerror or error}"
    return ""


async def _lead(config: LeaderConfig, work: LeaderWork) -> None:
    """Leads term after term, until cancelled."""
    user = kubeconfig.load(config.kubeconfig)
    # The lease has its own connection: renewals must not wait for other requests.
    home, lease_transport = HttpPool(user), HttpPool(user, RequestLimits(connections_max=1))
    dedicated = DedicatedPlanes.load(config.kubeconfig, config.planes, config.planes_directory)
    leader = LeaderElector(
        Client(lease_transport, user_agent=work.user_agent), work.lease, identity(), time.time, config.timing
    )
    async with (
        serve_probes(config.probe_port, work.metrics, lambda: leader.is_leading),
        BackgroundTasks() as tasks,
    ):
        tasks.restart("memory trimming", keep_trimmed)
        try:
            while True:
                async with leader.leading() as lost:
                    planes = Planes(user_agent=work.user_agent, permitted=leader.check, fence=leader.fence)
                    term = LeaderTerm(leader=leader, planes=planes, user=user, home=home, dedicated=dedicated)
                    await until_lost(lost, work.run(term))
                await asyncio.sleep(work.pause_seconds)
        finally:
            for transport in (home, lease_transport):
                await transport.close()


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
