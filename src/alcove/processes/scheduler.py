"""`alcove scheduler`: one scheduler over all planes, in the process that holds the lease."""

from __future__ import annotations

import time

import typer

from alcove.client.events import EventRecorder, PendingEvent
from alcove.component.tasks import BackgroundTasks
from alcove.processes.leadership import LeaderConfig, LeaderTerm, LeaderWork, run_as_leader
from alcove.processes.memory import bound_collections
from alcove.scheduler.core import Scheduler
from alcove.scheduler.decisions import ScheduledPodRef
from alcove.scheduler.fairness import FairShareQueue, FirstComeQueue
from alcove.scheduler.metrics import SchedulerMetrics
from alcove.scheduler.runner import WARNING, SchedulerRunner

LEASE = "kube-scheduler"
USER_AGENT = "alcove-scheduler"
COMPONENT = "default-scheduler"
FLIGHTS_MAX = 32
"""Concurrent bindings per plane: enough to keep its API server busy, few enough to stay fair."""


class SchedulerConfig(LeaderConfig, frozen=True, kw_only=True):
    is_fair: bool = True
    """False: the oldest pod of all tenants is next."""


def run_scheduler(config: SchedulerConfig) -> str:
    """Runs until SIGINT or SIGTERM; returns an error message, or an empty string."""
    bound_collections()
    metrics = SchedulerMetrics()
    work = LeaderWork(
        lease=LEASE,
        user_agent=USER_AGENT,
        metrics=metrics.text,
        run=lambda term: _run(term, config.is_fair, metrics),
    )
    return run_as_leader(config, work)


async def _run(term: LeaderTerm, is_fair: bool, metrics: SchedulerMetrics) -> None:
    planes, leader = term.planes, term.leader
    fairness = FairShareQueue() if is_fair else FirstComeQueue()
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
        fence=leader.plane_fence,
        confirm=leader.confirm,
        clock=time.monotonic,
        wall=time.time,
    )
    metrics.follow(core, runner)

    async with BackgroundTasks() as tasks:
        for recorder in (warning_events, normal_events):
            tasks.restart("event recorder", recorder.run)
        await runner.run(
            term.home, lambda: term.dedicated.follow(planes, runner, tasks), lambda: typer.echo("leading")
        )
