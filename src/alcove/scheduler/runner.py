"""The runner: connects the core to planes. Feeds it the mirrors' changes, and executes its decisions.

    mirrors ──▶ core.observe        core.schedule_next ──▶ bind, prepare, preempt, report ──▶ API
                    ▲                                                       │
                    └──────────── bound, refused, unanswered, … ◀───────────┘

Decisions are made just in time: the number in flight per plane is bounded, so that a later pod with
precedence waits for a few bindings, not for thousands.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from msgspec import Struct

from alcove.api.errors import ApiError
from alcove.api.escrow import NAMESPACE
from alcove.api.ids import ALL, SYSTEM, TenantId
from alcove.api.kinds.core.control_planes import has_own_plane
from alcove.client.changes import ChangeType, ObjectChange, Trim, without_managed_fields
from alcove.client.client import ListSelection
from alcove.client.errors import ClientError
from alcove.client.fencing import Confirm
from alcove.client.keys import HOME, ObjectKey, PlaneId
from alcove.client.mirror import Mirror
from alcove.client.plane_joining import PlaneJoining
from alcove.client.planes import Planes
from alcove.client.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    STORAGE_CLASSES,
    TENANTS,
    Resource,
)
from alcove.client.transport import Transport
from alcove.component import request_ids
from alcove.component.tasks import BackgroundTasks
from alcove.scheduler import bind
from alcove.scheduler.bind import BindOutcome
from alcove.scheduler.core import Scheduler
from alcove.scheduler.decisions import BindPod, Decision, Preempt, Prepare, ScheduledPodRef, Unschedulable
from alcove.scheduler.escrow import Escrow
from alcove.scheduler.events import ObjectKind, SchedulerEvent
from alcove.scheduler.object_trimming import trim_node, trim_pod

log = logging.getLogger(__name__)

RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False)
REPORTS_MAX = 4
DECISIONS_AT_ONCE = 8
IDLE_SECONDS_MAX = 5.0
LISTED_SECONDS = 0.05


class WatchedResource(Struct, frozen=True):
    kind: ObjectKind
    selection: ListSelection
    trim: Trim = without_managed_fields
    is_home: bool = False
    """A ring0 resource: watched on the home plane only."""
    tenant: TenantId = ALL


WATCHED = (
    WatchedResource(ObjectKind.NODE, ListSelection(NODES), trim_node, is_home=True),
    WatchedResource(ObjectKind.TENANT, ListSelection(TENANTS), is_home=True),
    WatchedResource(ObjectKind.NOTE, ListSelection(CONFIG_MAPS, NAMESPACE), is_home=True, tenant=SYSTEM),
    WatchedResource(ObjectKind.NAMESPACE, ListSelection(NAMESPACES)),
    WatchedResource(ObjectKind.RUNTIME_CLASS, ListSelection(RUNTIME_CLASSES)),
    WatchedResource(ObjectKind.STORAGE_CLASS, ListSelection(STORAGE_CLASSES)),
    WatchedResource(ObjectKind.VOLUME, ListSelection(PERSISTENT_VOLUMES)),
    WatchedResource(ObjectKind.CLAIM, ListSelection(PERSISTENT_VOLUME_CLAIMS)),
    WatchedResource(ObjectKind.BUDGET, ListSelection(POD_DISRUPTION_BUDGETS)),
    WatchedResource(ObjectKind.POD, ListSelection(PODS), trim_pod),
)
"""Watched resources, pods last."""

NORMAL, WARNING = "Normal", "Warning"
Note = Callable[[ScheduledPodRef, str, str, str], None]
"""Records an event of a pod: (pod, type, reason, message)."""


class SchedulerRunner:
    def __init__(
        self,
        planes: Planes,
        core: Scheduler,
        note: Note,
        *,
        fence: str,
        confirm: Confirm,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """`planes` write under `fence`, which this process holds. `clock` is the core's; `wall` tells
        the time of day."""
        self._planes = planes
        self._core = core
        self._note = note
        self._clock = clock
        self._wall = wall
        self._awake = asyncio.Event()
        self._reports_in_flight: Counter[PlaneId] = Counter()
        self._tasks = BackgroundTasks()
        self._mirrors: dict[ObjectKind, Mirror] = {}
        self._home_synced = asyncio.Event()
        self._joining = PlaneJoining(
            planes, self._tasks, fence, confirm, self._on_synced, self._home_synced.wait
        )
        self._escrow = Escrow(core.cache, lambda: planes.client(HOME), self._is_over)
        self.placed = 0
        """Number of successful bindings."""

    def ids(self) -> list[PlaneId]:
        return self._joining.ids()

    def join(self, plane: PlaneId, transport: Transport) -> None:
        """Joins a dedicated tenant's plane, which has the tenant's name."""
        self._core.add_plane(plane, TenantId(plane))
        self._joining.join(plane, transport)

    async def leave(self, plane: PlaneId) -> None:
        """Leaves a plane that was removed or moved to another tenant."""
        await self._joining.leave(plane)
        self._core.remove_plane(plane)
        self._awake.set()

    async def run(
        self,
        home: Transport,
        follow: Callable[[], Awaitable[None]] | None = None,
        began: Callable[[], None] = lambda: None,
    ) -> None:
        """Runs until cancelled. `follow` is called once planes can join, `began` when scheduling starts."""
        async with self._planes, self._tasks:
            self._planes.join(HOME, home)
            for each in WATCHED:
                mirror = self._mirrors[each.kind] = self._planes.mirror(
                    each.selection, tenant=each.tenant, trim=each.trim, only=HOME if each.is_home else None
                )
                mirror.subscribe(self._on_change(each.kind))
            if follow is not None:
                await follow()
            # Scheduling on a partial list would overcommit nodes.
            while not self._planes.is_synced(HOME):  # noqa: ASYNC110 - there is no event for one plane
                await asyncio.sleep(LISTED_SECONDS)
            self._on_synced(HOME)
            self._home_synced.set()
            self._tasks.restart("capacity notes", self._escrow.sweep)
            began()
            await self._decide()

    def _on_synced(self, plane: PlaneId) -> None:
        """The plane's mirrors are synced."""
        self._core.know_plane(plane)
        self._awake.set()

    def _is_over(self, plane: PlaneId) -> bool:
        """Whether the plane no longer exists: its tenant was deleted, or is served by the home plane."""
        tenant = self._mirrors[ObjectKind.TENANT].get(ObjectKey(HOME, SYSTEM, "", plane)) or {}
        return plane not in self.ids() and not (tenant and has_own_plane(tenant))

    def _has_moved(self, kind: ObjectKind, change: ObjectChange) -> bool:
        """Whether the object was deleted only where its tenant was served before. Pods are told of it: they have a plane."""
        serving = self._planes.serving(change.key.tenant)
        if kind is ObjectKind.POD or change.key.plane == serving or kind not in self._mirrors:
            return False
        moved = ObjectKey(serving, change.key.tenant, change.key.namespace, change.key.name)
        return moved in self._mirrors[kind]

    def _on_change(self, kind: ObjectKind) -> Callable[[ObjectChange], None]:
        def on_change(change: ObjectChange) -> None:
            key, obj = change.key, change.obj
            if change.kind is ChangeType.DELETED and self._has_moved(kind, change):
                return
            if kind is ObjectKind.POD and change.kind is ChangeType.UPDATED and _is_another(change):
                assert change.old is not None
                self._core.observe(SchedulerEvent(key.plane, key.tenant, kind, change.old, True))
            self._core.observe(
                SchedulerEvent(key.plane, key.tenant, kind, obj, change.kind is ChangeType.DELETED)
            )
            self._awake.set()

        return on_change

    async def _decide(self) -> None:
        while True:
            self._awake.clear()
            decided = 0
            while (
                decision := self._core.schedule_next(self._reports_in_flight[HOME] < REPORTS_MAX)
            ) is not None:
                self._carry_out(decision)
                decided += 1
                if decided % DECISIONS_AT_ONCE == 0:
                    await asyncio.sleep(0)
            if self._core.fairness.has_ready:
                await asyncio.sleep(0)
                continue
            due = self._core.next_due
            wait = IDLE_SECONDS_MAX if due is None else min(IDLE_SECONDS_MAX, max(0.0, due - self._clock()))
            try:
                async with asyncio.timeout(wait):
                    await self._awake.wait()
            except TimeoutError:
                continue

    def _carry_out(self, decision: Decision) -> None:
        match decision:
            case BindPod():
                self._start(self._bind(decision))
            case Prepare():
                self._start(self._prepare(decision))
            case Preempt():
                self._start(self._preempt(decision))
            case Unschedulable():
                self._start(self._report(decision))
                self._reports_in_flight[decision.pod.plane] += 1

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.create_task(work, context=request_ids.new_context())

    async def _bind(self, decision: BindPod) -> None:
        pod = decision.pod
        outcome = BindOutcome.UNKNOWN
        try:
            if await self._escrow.cover(pod.plane, decision.node):
                outcome = await bind.bind(self._planes.client(pod.plane), decision)
            if outcome is BindOutcome.REFUSED:
                current = await bind.get_pod(self._planes.client(pod.plane), pod)
                self._core.refused(pod, current, decision.is_repeated)
        except (ApiError, ClientError):
            outcome = BindOutcome.UNKNOWN
        except Exception:
            # What a plane's server says of its pod may be anything; it must not end the scheduling of others.
            log.exception("failed to bind pod; retrying", extra={"plane": pod.plane, "pod": pod.name})
            outcome = BindOutcome.UNKNOWN
        if outcome is BindOutcome.DONE:
            self.placed += 1
            self._core.bound(pod)
            self._note(pod, NORMAL, "Scheduled", decision.text)
        elif outcome is BindOutcome.UNKNOWN:
            self._core.unanswered(pod)
        self._awake.set()

    async def _prepare(self, decision: Prepare) -> None:
        try:
            done = await bind.prepare(self._planes.client(decision.pod.plane), decision)
        except ClientError:
            done = False
        if not done:
            self._core.unprepared(decision.pod)
            self._awake.set()

    async def _preempt(self, decision: Preempt) -> None:
        try:
            # Nominate first: if this process exits here, no pod was evicted in vain.
            await bind.nominate(self._planes.client(decision.pod.plane), decision, self._wall)
        except (ApiError, ClientError) as error:
            log.info("failed to nominate node for pod", extra={"pod": decision.pod.name, "error": str(error)})
        self._note(decision.pod, WARNING, "FailedScheduling", decision.text)
        for victim in decision.victims:
            try:
                evicted = await bind.evict(self._planes.client(victim.plane), victim, self._wall)
            except ClientError:
                evicted = False
            if evicted:
                self._note(victim, NORMAL, "Preempted", decision.victim_text)
            else:
                self._core.spared(victim)
        self._awake.set()

    async def _report(self, decision: Unschedulable) -> None:
        plane = decision.pod.plane
        self._note(decision.pod, WARNING, "FailedScheduling", decision.text)
        try:
            # A plane that does not answer gets no more reports, instead of delaying those of others.
            if plane == HOME or self._reports_in_flight[plane] <= REPORTS_MAX:
                await bind.report_unschedulable(self._planes.client(plane), decision, self._wall)
        except (ApiError, ClientError) as error:
            log.info("failed to update pod status", extra={"pod": decision.pod.name, "error": str(error)})
        finally:
            self._reports_in_flight[plane] -= 1
            self._awake.set()


def _is_another(change: ObjectChange) -> bool:
    """The object replaced another of the same name whose deletion was not observed."""
    uid: str = change.obj["metadata"]["uid"]
    return f'"uid":"{uid}"'.encode() not in change.old_body
