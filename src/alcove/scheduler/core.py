"""The scheduler's core: takes events, and returns one decision after another. No I/O; the clock is injected.

    core = Scheduler(clock)
    core.observe(event)                 # changes on planes
    while decision := core.schedule_next():
        ...                             # execute it, then core.bound(ref), core.refused(ref, …), …

A decision reserves its resources from the moment it is made. `fairness` and `queue` select the next pod,
`evaluator` selects its node, and `ledger` records who holds what.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable

from alcove.api.ids import TenantId
from alcove.api.objects import Object, get
from alcove.client.keys import HOME, PlaneId, TenantKey
from alcove.scheduler import volumeplans
from alcove.scheduler.causes import WakeCause
from alcove.scheduler.decisions import (
    BindPod,
    Decision,
    Preempt,
    Prepare,
    ScheduledPodRef,
    Unschedulable,
    ref,
)
from alcove.scheduler.evaluator import NO_SLOT, NodeEvaluator, SchedulingExplanation
from alcove.scheduler.events import ObjectKind, SchedulerEvent
from alcove.scheduler.fairness import FairShareQueue, TenantShare
from alcove.scheduler.ledger import PLANE_FLIGHTS_MAX, InFlightBinding, Ledger
from alcove.scheduler.observer import Observer
from alcove.scheduler.pod_tracker import PodTracker
from alcove.scheduler.pods import PodState, SchedulerPod
from alcove.scheduler.preemption import PreemptionCandidate, PreemptionOutcome
from alcove.scheduler.profiles import PROFILES, Profiles
from alcove.scheduler.queue import SchedulingQueue
from alcove.scheduler.requeue import Requeuer
from alcove.scheduler.scheduler_cache import SchedulerCache

log = logging.getLogger(__name__)

FAILED = "the scheduler failed to evaluate this pod; it will be retried in a few minutes"
ATTEMPTS_MAX = 64
ATTEMPTS_SECONDS_MAX = 0.005
"""Limits on attempts without a decision in one call, by number and time: events must be processed in
between."""
REPORT_TURNS = 8
"""One of this many calls may report why a pod is pending, even while there are pods to place."""


class Scheduler:
    def __init__(
        self,
        clock: Callable[[], float],
        fairness: FairShareQueue | None = None,
        profiles: Profiles = PROFILES,
        flights_max: int = PLANE_FLIGHTS_MAX,
        work_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """`work_clock` measures the CPU time of attempts: load by other processes is not charged to
        tenants."""
        self._clock = clock
        self._work_clock = work_clock
        self._flights_max = flights_max
        self.cache = SchedulerCache()
        self.fairness = fairness or FairShareQueue()
        self.queue = SchedulingQueue(self.cache, self.fairness)
        self.evaluator = NodeEvaluator(self.cache, profiles)
        self.ledger = Ledger(self.cache, self.fairness)
        self.tracker = PodTracker(self.cache)
        self._waking = Requeuer(self.cache, self.queue, self.fairness)
        self._observer = Observer(
            self.cache,
            self.tracker,
            self.fairness,
            self.queue,
            self.ledger,
            self._waking,
            self.evaluator,
            profiles,
        )
        self._planes: dict[PlaneId, TenantId | None] = {HOME: None}
        self._stalled: dict[PlaneId, set[TenantId]] = {}
        """Plane → tenants on hold because the plane has too many bindings in flight."""
        self._prepared: deque[InFlightBinding] = deque()
        self._calls = 0
        self._attempt_began = 0.0

    # Planes

    def add_plane(self, name: PlaneId, tenant: TenantId | None) -> None:
        """Adds a plane. Events of other tenants than its dedicated `tenant` are ignored; None accepts all
        tenants."""
        self._planes[name] = tenant

    def know_plane(self, name: PlaneId) -> None:
        """The plane is synced and fenced: only this scheduler binds pods there. Until then, its escrow is
        counted instead of its pods."""
        for slot in self.cache.notes.know_plane(name):
            self._waking.room(slot)

    def remove_plane(self, name: PlaneId) -> None:
        """Removes the plane with its pods. Its escrow is counted until it is deleted."""
        tenant = self._planes.pop(name, None)
        self.cache.notes.forget_plane(name)
        # Only a plane that serves all tenants can have pods of more than one.
        for each in [tenant] if tenant is not None else list(self.tracker.pods):
            for pod in [pod for pod in self.tracker.pods.get(each, {}).values() if pod.plane == name]:
                self._observer.forget(pod)
        self._resume(name)

    def _resume(self, plane: PlaneId) -> None:
        if plane not in self._stalled:
            return
        # Wait for several free seats: else each completed binding would wake all tenants for a single one.
        if self.ledger.in_flight(plane) <= self._flights_max * 3 // 4:
            for tenant in self._stalled.pop(plane, ()):
                self.queue.hold(tenant, False)

    # Input from planes

    def observe(self, event: SchedulerEvent) -> None:
        if event.plane not in self._planes:
            return
        if self._planes[event.plane] not in (None, event.tenant):
            return
        self._observer.take(event)
        # The watch may show a binding before its response arrives.
        self._resume(event.plane)
        if event.kind in (ObjectKind.CLAIM, ObjectKind.VOLUME):
            ready, failed = self.ledger.check_preparing(event.tenant)
            self._prepared.extend(ready)
            for flight in failed:
                self.unprepared(ref(flight.pod))

    def bound(self, pod: ScheduledPodRef) -> None:
        """The plane accepted the binding."""
        found = self._find(pod)
        if found is not None and found.state is PodState.ASSUMED:
            self.ledger.taken(found)
            self._observer.preemption.note_placed(found)
            self._resume(pod.plane)

    def refused(self, pod: ScheduledPodRef, now_is: Object | None, is_repeated: bool = False) -> None:
        """The plane refused the binding definitely. `now_is` is the current pod, None if it was deleted.
        `is_repeated`: it was sent before with unknown outcome."""
        found = self._find(pod)
        if found is None or found.state is not PodState.ASSUMED:
            return
        if is_repeated and now_is is not None and _may_be_bound_yet(now_is):
            self.ledger.mark_unconfirmed(found, self._clock())
            return
        if now_is is not None and get(now_is, "spec", "nodeName") == found.node:
            self.bound(pod)  # An earlier attempt, whose response was lost.
            return
        self._observer.let_go(found)
        self._resume(pod.plane)
        if now_is is None:
            self._observer.forget(found)
            return
        if not get(now_is, "spec", "nodeName"):
            found.state = PodState.PENDING
            self.queue.put_later(found, self._clock())
        self._observer.take(SchedulerEvent(pod.plane, pod.tenant, ObjectKind.POD, now_is))

    def unanswered(self, pod: ScheduledPodRef) -> None:
        """The outcome of the binding is unknown: it will be sent again."""
        found = self._find(pod)
        if found is not None:
            self.ledger.mark_unconfirmed(found, self._clock())

    def unprepared(self, pod: ScheduledPodRef) -> None:
        """The volumes could not be prepared as planned."""
        found = self._find(pod)
        if found is not None and found.state is PodState.ASSUMED:
            self._observer.let_go(found)
            self._resume(pod.plane)
            found.state = PodState.PENDING
            self.queue.put_later(found, self._clock())

    def spared(self, victim: ScheduledPodRef) -> None:
        """The victim could not be evicted."""
        found = self._find(victim)
        if found is not None:
            self._observer.preemption.doomed.discard(found)
            self._waking.room(found.slot)

    def _find(self, pod: ScheduledPodRef) -> SchedulerPod | None:
        return self.tracker.pods.get(pod.tenant, {}).get(pod.uid)

    # Decisions

    @property
    def next_due(self) -> float | None:
        """Time of the next decision if no event arrives before. None if there is none."""
        times = [due for due in (self.queue.due(), self.ledger.next_due()) if due is not None]
        return min(times, default=None)

    def schedule_next(self, may_report: bool = True) -> Decision | None:
        """The next decision. None if there is nothing to decide now, or not within the limits of one call;
        then `fairness.has_ready` is true. `may_report`: whether Unschedulable reports may be returned."""
        now = self._clock()
        self.queue.tick(now)
        self._waking.flush()
        self._calls += 1
        urgent = self._resend(now) or self._bind_prepared(now)
        if urgent is not None:
            return urgent
        if may_report and self._calls % REPORT_TURNS == 0 and (report := self._report_waiting(now)):
            return report
        for _ in range(ATTEMPTS_MAX):
            account = self.fairness.next()
            if account is None:
                break
            decision = self._serve(account, now)
            if decision is not None:
                return decision
            if self._clock() - now > ATTEMPTS_SECONDS_MAX:
                break
        return self._report_waiting(now) if may_report else None

    def _resend(self, now: float) -> Decision | None:
        """Handles unconfirmed bindings, and pods that waited too long for volumes."""
        while (flight := self.ledger.due(now)) is not None:
            if flight.is_preparing:
                self.unprepared(ref(flight.pod))
            else:
                return BindPod(ref(flight.pod), flight.node, is_repeated=True)
        return None

    def _bind_prepared(self, now: float) -> Decision | None:
        while self._prepared:
            flight = self._prepared.popleft()
            if self.ledger.flights.get(flight.pod) is flight and flight.is_preparing:
                self.ledger.bind_now(flight, now)
                return BindPod(ref(flight.pod), flight.node)
        return None

    def _report_waiting(self, now: float) -> Decision | None:
        waiting = self.queue.unreported(now)
        if waiting is None:
            return None
        pod, text = waiting
        decision = Unschedulable(ref(pod), text, pod.is_denominated)
        pod.reported_reason, pod.reported_at, pod.is_denominated = text, now, False
        return decision

    def _has_seat(self, pod: SchedulerPod) -> bool:
        """Whether the plane may have one more binding in flight. On a shared plane a tenant gets at most
        three quarters of them: its webhooks could make its bindings slow."""
        maximum, ledger = self._flights_max, self.ledger
        if ledger.in_flight(pod.plane) >= maximum:
            return False
        is_shared = self._planes.get(pod.plane) is None
        return not is_shared or ledger.in_flight_of(TenantKey(pod.plane, pod.tenant)) < max(
            1, maximum * 3 // 4
        )

    def _serve(self, account: TenantShare, now: float) -> Decision | None:
        """Schedules the tenant's first pod, or blocks it with the reason."""
        queued = self.queue.take(account)
        if queued is None:
            return None
        pod, ticket = queued
        if not self._has_seat(pod):
            self.queue.put_back(pod, ticket)
            self._stalled.setdefault(pod.plane, set()).add(pod.tenant)
            self.queue.hold(pod.tenant, True)
            return None
        amounts = pod.shape.requests.amounts
        cause = WakeCause.QUOTA
        objection = self.fairness.quota_objection(account, amounts)
        if not objection:
            cause |= WakeCause.UNGUARANTEED
            objection = self.fairness.guarantee_objection(account, amounts)
        if objection:
            self.fairness.failed(account, is_again=self.queue.was_blocked(pod))
            self.queue.block(pod, ticket, cause, objection, now)
            return None
        self._attempt_began = self._work_clock()
        try:
            return self._attempt(account, pod, ticket, now)
        except Exception:
            if pod.state is not PodState.PENDING:
                raise
            # Nothing was decided: an error with this pod must not stop the others.
            log.exception("failed to evaluate pod", extra={"tenant": pod.tenant, "pod": pod.key})
            self._charge(account, pod)
            self.queue.block(pod, ticket, WakeCause.NOTHING, FAILED, now)
            return None

    def _attempt(self, account: TenantShare, pod: SchedulerPod, ticket: int, now: float) -> Decision | None:
        nominated = pod.nominated
        # Resources reserved for this pod, and for nominated pods of lower priority, are available to it.
        self.cache.denominate(pod)
        outranked = self._outranked(pod)
        for other, _ in outranked:
            self.cache.denominate(other)
        try:
            slot = self._choose(pod, nominated)
            explanation = self.evaluator.explain(pod) if slot == NO_SLOT else None
            if explanation is None:
                return self._place(account, pod, slot, now)
            return self._fail(account, pod, ticket, nominated, explanation, now)
        finally:
            for other, node in outranked:
                self.cache.nominate(other, node)
                if node == pod.nominated:
                    self._renounce(other)

    def _renounce(self, pod: SchedulerPod) -> None:
        """Removes the pod's nomination: a pod of higher priority was nominated for its node."""
        self.queue.remove(pod)
        self.cache.denominate(pod)
        pod.is_denominated = True
        self.queue.add(pod)

    def _outranked(self, pod: SchedulerPod) -> list[tuple[SchedulerPod, str]]:
        """Nominated pods of lower priority that this pod may preempt, with their nodes."""
        nominated = self.cache.nominated_of
        return [
            (other, other.nominated)
            for tenant in self._observer.preemption.victim_scope(pod)
            for other in nominated.get(tenant, ())
            if other.priority < pod.priority
        ]

    def _choose(self, pod: SchedulerPod, nominated: str) -> int:
        if self.evaluator.fault(pod)[0]:
            return NO_SLOT
        slot = self.cache.nodes.slot(nominated) if nominated else None
        if slot is not None and self.evaluator.fits(pod, slot):
            return slot
        return self.evaluator.choose(pod)

    def _place(self, account: TenantShare, pod: SchedulerPod, slot: int, now: float) -> Decision:
        node = self.cache.nodes.name(slot)
        plan = volumeplans.plan(self.cache, pod, slot) if pod.shape.claims else volumeplans.NO_VOLUMES
        self.ledger.assume(pod, node, now, plan)
        self.fairness.succeeded(account, pod.shape.requests.amounts)
        self._waking.pod_placed(pod)
        return Prepare(ref(pod), node, plan) if plan else BindPod(ref(pod), node)

    def _fail(
        self,
        account: TenantShare,
        pod: SchedulerPod,
        ticket: int,
        nominated: str,
        explanation: SchedulingExplanation,
        now: float,
    ) -> Decision | None:
        found = self._preempt(pod, nominated, explanation) if explanation.nodes else PreemptionOutcome()
        self._charge(account, pod)
        if found.candidate is not None:
            return self._make_room(pod, ticket, found.candidate, explanation, now)
        text = f"{explanation.text} preemption: {found.text}" if found.text else explanation.text
        pod.is_denominated = pod.is_denominated or (bool(nominated) and not pod.nominated)
        if found.is_partial:
            self.queue.block_for_now(pod, ticket, explanation.cured_by, text, now)
        else:
            self.queue.block(pod, ticket, explanation.cured_by, text, now)
        return None

    def _charge(self, account: TenantShare, pod: SchedulerPod) -> None:
        """Charges the tenant for a failed attempt."""
        worked = self._work_clock() - self._attempt_began
        self.fairness.failed(account, worked, self.queue.was_blocked(pod))

    def _preempt(
        self, pod: SchedulerPod, nominated: str, explanation: SchedulingExplanation
    ) -> PreemptionOutcome:
        """The victims to evict, or why preemption does not help."""
        preemption = self._observer.preemption
        if message := preemption.ineligible(pod, nominated, explanation):
            if nominated and pod.may_preempt:
                self.cache.nominate(pod, nominated)
            return PreemptionOutcome(text=message)
        return preemption.find(pod, explanation)

    def _make_room(
        self,
        pod: SchedulerPod,
        ticket: int,
        candidate: PreemptionCandidate,
        explanation: SchedulingExplanation,
        now: float,
    ) -> Decision:
        node = self.cache.nodes.name(candidate.slot)
        self._observer.preemption.doomed.update(candidate.victims)
        self.cache.nominate(pod, node)
        pod.reported_reason, pod.reported_at, pod.is_denominated = explanation.text, now, False
        self.queue.block(
            pod, ticket, explanation.cured_by | WakeCause.ROOM | WakeCause.POD_GONE, explanation.text, now
        )
        return Preempt(ref(pod), node, tuple(ref(victim) for victim in candidate.victims), explanation.text)


def _may_be_bound_yet(pod: Object) -> bool:
    return not pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
