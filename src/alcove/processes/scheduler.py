"""`alcove scheduler`: one scheduler over all planes, in the process that holds the lease.

A process without the lease has no state. It reads all planes when it becomes leader, so that its state is
newer than the last decision of the previous leader.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import typer
from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.client import kubeconfig
from alcove.client.client import Client
from alcove.client.errors import BadKubeconfig
from alcove.client.events import EventRecorder, PendingEvent
from alcove.client.leader import LeaderElector, LeaderTiming
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.component.tasks import BackgroundTasks
from alcove.processes.leadership import identity, run_until_signal, until_lost
from alcove.processes.memory import collect_seldom, keep_trimmed
from alcove.processes.plane_follower import DedicatedPlane
from alcove.processes.probes import serve_probes
from alcove.scheduler.core import Scheduler
from alcove.scheduler.decisions import ScheduledPodRef
from alcove.scheduler.fairness import FairShareQueue, FirstComeQueue
from alcove.scheduler.metrics import SchedulerMetrics
from alcove.scheduler.runner import WARNING, SchedulerRunner

log = logging.getLogger(__name__)

LEASE = "kube-scheduler"
USER_AGENT = "alcove-scheduler"
COMPONENT = "default-scheduler"
FLIGHTS_MAX = 32
"""Concurrent bindings per plane: enough to keep its API server busy, few enough to stay fair."""


class SchedulerConfig(Struct, frozen=True, kw_only=True):
    kubeconfig: Path
    planes: Mapping[TenantId, Path] = {}
    """Kubeconfigs of dedicated tenants' planes."""
    planes_directory: Path | None = None
    """Directory of further planes' kubeconfigs, followed while the process runs."""
    is_fair: bool = True
    """False: the oldest pod of all tenants is next."""
    probe_port: int | None = None
    """Loopback port for /metrics, /healthz and /readyz. None to serve nothing."""
    timing: LeaderTiming = LeaderTiming()


async def run(config: SchedulerConfig, leads: Callable[[], None] = lambda: None) -> None:
    """Runs until cancelled; `leads` is called each time this process starts scheduling."""
    user = kubeconfig.load(config.kubeconfig)
    # The lease has its own connection: renewals must not wait for other requests.
    home, lease_transport = HttpPool(user), HttpPool(user, connections_max=1)
    dedicated = DedicatedPlane.load(config.planes, config.planes_directory)
    leader = LeaderElector(
        Client(lease_transport, user_agent=USER_AGENT), LEASE, identity(), time.time, config.timing
    )
    metrics = SchedulerMetrics()
    async with (
        serve_probes(config.probe_port, metrics.text, lambda: leader.is_leading),
        BackgroundTasks() as tasks,
    ):
        tasks.restart("memory trimming", keep_trimmed)
        try:
            while True:
                async with leader.leading() as lost:
                    await until_lost(lost, _lead(config, leader, metrics, home, dedicated, leads))
        finally:
            for transport in (home, lease_transport):
                await transport.close()


async def _lead(
    config: SchedulerConfig,
    leader: LeaderElector,
    metrics: SchedulerMetrics,
    home: HttpPool,
    dedicated: DedicatedPlane,
    leads: Callable[[], None],
) -> None:
    planes = Planes(user_agent=USER_AGENT, permitted=leader.check, fence=leader.fence)
    fairness = FairShareQueue() if config.is_fair else FirstComeQueue()
    core = Scheduler(time.monotonic, fairness, flights_max=FLIGHTS_MAX)
    # Separate queues: Warning events must not wait behind Normal ones.
    warning_events, normal_events = (
        EventRecorder(planes.client, time.time),
        EventRecorder(planes.client, time.time),
    )

    def note(pod: ScheduledPodRef, type_: str, reason: str, message: str) -> None:
        involved = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
        }
        event = PendingEvent(pod.plane, pod.tenant, involved, type_, reason, message, COMPONENT)
        (warning_events if type_ == WARNING else normal_events).record(event)

    runner = SchedulerRunner(
        planes,
        core,
        note,
        fence=leader.fence,
        confirm=leader.confirm,
        clock=time.monotonic,
        wall=time.time,
    )
    metrics.follow(core, runner)

    async with BackgroundTasks() as tasks:
        for recorder in (warning_events, normal_events):
            tasks.restart("event recorder", recorder.run)
        await runner.run(home, lambda: dedicated.follow(runner, tasks), leads)


def run_scheduler(config: SchedulerConfig) -> str:
    """Runs until SIGINT or SIGTERM; returns an error message, or an empty string."""
    collect_seldom()
    try:
        run_until_signal(run(config, lambda: typer.echo("leading")))
    except BadKubeconfig as error:
        return str(error)
    except OSError as error:
        return f"cannot serve probes on port {config.probe_port}: {error.strerror or error}"
    return ""
