"""`alcove controllers`: every controller, over all planes, in the process that holds the lease.

A process without the lease holds no mirrors: it starts them when it begins to lead, so that everything
it acts on was read after the process before it had stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import typer
import uvloop
from msgspec import Struct

from alcove.api.errors import ApiError
from alcove.client import kubeconfig
from alcove.client.client import Client
from alcove.client.errors import BadKubeconfig, ClientError
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.client.transport import Transport
from alcove.controllers.all import CONTROLLERS
from alcove.controllers.controller import Options
from alcove.controllers.leader import Leader, Timing
from alcove.controllers.metrics import Metrics
from alcove.controllers.tenants.template import BadTemplate, NetworkTemplate
from alcove.controllers.work import Work, work
from alcove.processes.memory import keep_trimmed
from alcove.processes.probes import serve_probes

log = logging.getLogger(__name__)

LEASE = "alcove-controllers"
USER_AGENT = "alcove-controllers"
AGAIN_SECONDS = 1.0


class Config(Struct, frozen=True, kw_only=True):
    kubeconfig: Path
    options: Options = Options()
    probe_port: int | None = None
    """Serves /metrics, /healthz and /readyz on loopback; None: nothing is served."""
    timing: Timing = Timing()


async def run(config: Config, leads: Callable[[], None] = lambda: None) -> None:
    """Runs until cancelled; `leads` is called each time this process begins to lead, all mirrors synced."""
    account = kubeconfig.load(config.kubeconfig)
    transport = HttpPool(account)
    metrics = Metrics()
    wanted = Work(
        controllers=CONTROLLERS,
        clock=time.time,
        authorities={HOME: account.ca_pem.decode()},
        options=config.options,
        metrics=metrics,
    )
    leader = Leader(Client(transport, user_agent=USER_AGENT), LEASE, identity(), time.time, config.timing)
    async with serve_probes(config.probe_port, metrics.text, lambda: leader.is_leading):
        trimming = asyncio.create_task(keep_trimmed(), name="memory")
        try:
            while True:
                await _lead(leader, wanted, transport, leads)
        finally:
            trimming.cancel()
            await transport.close()


async def _lead(leader: Leader, wanted: Work, transport: Transport, leads: Callable[[], None]) -> None:
    """One term as the leader, until the lease is lost or the server is away before work has begun."""
    async with leader.leading() as lost:
        planes = Planes(user_agent=USER_AGENT, permitted=leader.check, fence=leader.fence)
        try:
            await _until(lost, work(wanted, planes, transport, leads))
        except* (ClientError, ApiError) as errors:
            log.warning("work interrupted", extra={"errors": [str(error) for error in errors.exceptions]})
    # After losing the lease too: whoever took it needs the server more than we do.
    await asyncio.sleep(AGAIN_SECONDS)


async def _until(lost: asyncio.Event, working: Coroutine[Any, Any, None]) -> None:
    """Works until the lease is lost, or until working fails, which is told."""
    work_task = asyncio.create_task(working)
    lost_task = asyncio.create_task(lost.wait())
    try:
        await asyncio.wait((work_task, lost_task), return_when=asyncio.FIRST_COMPLETED)
        if work_task.done():
            work_task.result()
    finally:
        for task in (work_task, lost_task):
            task.cancel()
        await asyncio.wait((work_task, lost_task))


def main(
    kubeconfig_path: Path | None, network_template: Path | None, probe_port: int | None, lease_seconds: float
) -> str:
    """Runs until a signal; returns what went wrong, or nothing."""
    try:
        NetworkTemplate.load(network_template)
    except BadTemplate as error:
        return str(error)
    config = Config(
        kubeconfig=kubeconfig_path or kubeconfig.default_path(),
        options=Options(default_network_template=network_template),
        probe_port=probe_port,
        timing=Timing.of(lease_seconds),
    )

    async def until_signal() -> None:
        working = asyncio.create_task(run(config, lambda: typer.echo("leading")))
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, working.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await working

    try:
        uvloop.run(until_signal())
    except BadKubeconfig as error:
        return str(error)
    except OSError as error:
        return f"cannot serve probes on port {probe_port}: {error.strerror or error}"
    return ""


def identity() -> str:
    """This very process' name in the lease."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"
