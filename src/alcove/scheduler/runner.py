"""The runner: joins the core to planes. What mirrors tell goes in, what is decided is carried out.

    mirrors ──▶ core.observe        core.schedule_next ──▶ bind, prepare, preempt, tell ──▶ the API
                    ▲                                                       │
                    └──────────── bound, refused, unanswered, … ◀───────────┘

Decisions are made just in time: only so many are under way per plane, so a pod that comes later but is
more deserving waits for a few bindings, not for thousands.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from alcove.api.errors import ApiError
from alcove.api.ids import TenantId
from alcove.client.changes import Change, Trim, without_managed_fields
from alcove.client.changes import Kind as Happened
from alcove.client.client import Selection
from alcove.client.errors import ClientError
from alcove.client.keys import HOME, PlaneId
from alcove.client.mirror import Mirror
from alcove.client.planes import Planes
from alcove.client.resources import (
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
from alcove.scheduler import bind
from alcove.scheduler.bind import Outcome
from alcove.scheduler.core import Scheduler
from alcove.scheduler.decisions import Bind, Decision, PodRef, Preempt, Prepare, Unschedulable
from alcove.scheduler.escrow import Escrow
from alcove.scheduler.events import Event, Kind
from alcove.scheduler.settling import has_seen_all
from alcove.scheduler.trimming import trim_node, trim_pod

log = logging.getLogger(__name__)

RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False)
TELLING_MAX = 4
DECISIONS_AT_ONCE = 8
IDLE_SECONDS_MAX = 5.0
LISTED_SECONDS = 0.05
SETTLE_AGAIN_SECONDS = 2.0

WATCHED: tuple[tuple[Kind, Resource, Trim, PlaneId | None], ...] = (
    (Kind.NODE, NODES, trim_node, HOME),
    (Kind.TENANT, TENANTS, without_managed_fields, HOME),
    (Kind.NAMESPACE, NAMESPACES, without_managed_fields, None),
    (Kind.RUNTIME_CLASS, RUNTIME_CLASSES, without_managed_fields, None),
    (Kind.STORAGE_CLASS, STORAGE_CLASSES, without_managed_fields, None),
    (Kind.VOLUME, PERSISTENT_VOLUMES, without_managed_fields, None),
    (Kind.CLAIM, PERSISTENT_VOLUME_CLAIMS, without_managed_fields, None),
    (Kind.BUDGET, POD_DISRUPTION_BUDGETS, without_managed_fields, None),
    (Kind.POD, PODS, trim_pod, None),
)
"""What is looked at, pods last. Nodes and tenants are ring0's: only the home plane is asked for them."""

NORMAL, WARNING = "Normal", "Warning"
Note = Callable[[PodRef, str, str, str], None]
"""Tells the users of a pod: (pod, type, reason, message)."""


class Runner:
    def __init__(
        self,
        planes: Planes,
        core: Scheduler,
        note: Note,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
        settled_seconds: float,
    ) -> None:
        """`clock` is the core's; `wall` tells the time of day. After `settled_seconds`, nothing that a
        scheduler before this one sent comes true any more."""
        self._planes = planes
        self._core = core
        self._note = note
        self._clock = clock
        self._wall = wall
        self._awake = asyncio.Event()
        self._telling = 0
        self._tasks = asyncio.TaskGroup()
        self._mirrors: list[Mirror] = []
        self._settled_at = clock() + settled_seconds
        self._settling: dict[PlaneId, asyncio.Task[None]] = {}
        self._escrow = Escrow(core.world, lambda: planes.client(HOME))
        self.placed = 0
        """Bindings that planes took."""

    def join(self, tenant: TenantId, transport: Transport) -> None:
        """A dedicated tenant's plane, which has the tenant's name."""
        plane = PlaneId(tenant)
        self._core.add_plane(plane, tenant)
        self._planes.join(plane, transport)
        self._settling[plane] = self._tasks.create_task(self._settle(plane), name=f"plane {plane}")

    async def leave(self, tenant: TenantId) -> None:
        """The tenant's plane is no more."""
        plane = PlaneId(tenant)
        self._settling.pop(plane).cancel()
        await self._planes.leave(plane)
        self._core.remove_plane(plane)
        self._awake.set()

    async def run(
        self,
        home: Transport,
        joined: Callable[[], None] = lambda: None,
        began: Callable[[], None] = lambda: None,
    ) -> None:
        """Until cancelled. `joined` is called once planes can join, `began` when decisions are made."""
        async with self._planes, self._tasks:
            self._planes.join(HOME, home)
            for kind, resource, trim, only in WATCHED:
                mirror = self._planes.mirror(Selection(resource), trim=trim, only=only)
                mirror.subscribe(self._hearing(kind))
                self._mirrors.append(mirror)
            joined()
            # Half of what there is would look like free nodes.
            await self._know(HOME)
            self._tasks.create_task(self._escrow.sweep(), name="escrow")
            began()
            await self._decide()

    async def _know(self, plane: PlaneId) -> None:
        """Wait until the plane was listed whole, however long that takes."""
        wanted = [
            mirror for mirror, (*_, only) in zip(self._mirrors, WATCHED, strict=True) if only in (None, plane)
        ]
        while not all(mirror.is_synced(plane) for mirror in wanted):  # noqa: ASYNC110 - a mirror tells of one plane only when asked
            await asyncio.sleep(LISTED_SECONDS)
        self._core.know_plane(plane)
        self._awake.set()

    async def _settle(self, plane: PlaneId) -> None:
        """Wait until nothing more comes true there of what another scheduler sent, and all that did is known."""
        await self._know(plane)
        await asyncio.sleep(max(0.0, self._settled_at - self._clock()))
        pods = self._mirrors[-1]
        while True:
            try:
                if await has_seen_all(self._planes.client(plane), pods, plane):
                    break
            except (ApiError, ClientError, TimeoutError) as error:
                log.info("not settled", extra={"plane": plane, "error": str(error)})
            await asyncio.sleep(SETTLE_AGAIN_SECONDS)
        self._core.settle_plane(plane)
        self._awake.set()

    def _hearing(self, kind: Kind) -> Callable[[Change], None]:
        def hear(change: Change) -> None:
            key, obj = change.key, change.obj
            if kind is Kind.POD and change.kind is Happened.UPDATED and _is_another(change):
                assert change.old is not None
                self._core.observe(Event(key.plane, key.tenant, kind, change.old, True))
            self._core.observe(Event(key.plane, key.tenant, kind, obj, change.kind is Happened.DELETED))
            self._awake.set()

        return hear

    async def _decide(self) -> None:
        while True:
            self._awake.clear()
            decided = 0
            while (decision := self._core.schedule_next(self._telling < TELLING_MAX)) is not None:
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
            case Bind():
                self._start(self._bind(decision))
            case Prepare():
                self._start(self._prepare(decision))
            case Preempt():
                self._start(self._preempt(decision))
            case Unschedulable():
                self._telling += 1
                self._start(self._tell(decision))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.create_task(work)

    async def _bind(self, decision: Bind) -> None:
        pod = decision.pod
        outcome = Outcome.UNKNOWN
        try:
            if await self._escrow.cover(pod.plane, decision.node):
                outcome = await bind.bind(self._planes.client(pod.plane), decision)
            if outcome is Outcome.REFUSED:
                self._core.refused(pod, await bind.look(self._planes.client(pod.plane), pod))
        except (ApiError, ClientError):
            outcome = Outcome.UNKNOWN
        if outcome is Outcome.DONE:
            self.placed += 1
            self._core.bound(pod)
            self._note(pod, NORMAL, "Scheduled", decision.text)
        elif outcome is Outcome.UNKNOWN:
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
            # First the nomination: should this process end here, nobody was evicted in vain.
            await bind.nominate(self._planes.client(decision.pod.plane), decision, self._wall)
        except (ApiError, ClientError) as error:
            log.info("not nominated", extra={"pod": decision.pod.name, "error": str(error)})
        self._note(decision.pod, WARNING, "FailedScheduling", decision.text)
        for victim in decision.victims:
            try:
                gone = await bind.evict(self._planes.client(victim.plane), victim, self._wall)
            except ClientError:
                gone = False
            if gone:
                self._note(victim, NORMAL, "Preempted", decision.victim_text)
            else:
                self._core.spared(victim)
        self._awake.set()

    async def _tell(self, decision: Unschedulable) -> None:
        self._note(decision.pod, WARNING, "FailedScheduling", decision.text)
        try:
            await bind.tell(self._planes.client(decision.pod.plane), decision, self._wall)
        except (ApiError, ClientError) as error:
            log.info("not told", extra={"pod": decision.pod.name, "error": str(error)})
        finally:
            self._telling -= 1
            self._awake.set()


def _is_another(change: Change) -> bool:
    """The object is another one of the same name; that the one before went was not seen."""
    uid: str = change.obj["metadata"]["uid"]
    return f'"uid":"{uid}"'.encode() not in change.old_body
