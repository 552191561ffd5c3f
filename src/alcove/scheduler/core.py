"""The scheduler's core: told what happens, asked for one decision after another. No I/O, no clock of its own.

    core = Scheduler(clock)
    core.observe(event)                 # whatever planes tell
    while decision := core.schedule_next():
        ...                             # carry it out, then core.bound(ref), core.refused(ref, …), …

A decision holds its place from the moment it is made. Whose turn it is, is the business of `fairness`
and `queue`; where a pod goes, of `judge`; who holds what, of `ledger`.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable

from alcove.api.ids import TenantId
from alcove.api.objects import Object
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
from alcove.scheduler.storage import ClaimKey, VolumeClaim

log = logging.getLogger(__name__)

FAILED = "the scheduler failed to judge this pod, and will try again in a few minutes"
ATTEMPTS_MAX = 64
ATTEMPTS_SECONDS_MAX = 0.005
"""Attempts in one call that may end without anything to tell, and when the last may begin: somebody more
deserving may have come meanwhile."""
REPORT_TURNS = 8
"""Of so many calls, one may tell a waiting pod why it waits, even while there is more to place."""


class Scheduler:
    def __init__(
        self,
        clock: Callable[[], float],
        fairness: FairShareQueue | None = None,
        profiles: Profiles = PROFILES,
        flights_max: int = PLANE_FLIGHTS_MAX,
        work_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """`work_clock` tells how much was worked: what others do to the machine is no tenant's fault."""
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
        self._closed: set[PlaneId] = set()
        self._stalled: dict[PlaneId, set[TenantId]] = {}
        """Plane → tenants with pods that cannot be served while it is closed or has too much under way."""
        self._prepared: deque[InFlightBinding] = deque()
        self._calls = 0
        self._attempt_began = 0.0

    # What planes there are.

    def add_plane(self, name: PlaneId, tenant: TenantId | None) -> None:
        """A plane that serves one dedicated tenant: it is heard about no other. None: about all."""
        self._planes[name] = tenant

    def know_plane(self, name: PlaneId) -> None:
        """All there is on the plane was told, and nothing comes true there but what this scheduler sends.
        Until then, what is noted of it counts instead."""
        for slot in self.cache.notes.know_plane(name):
            self._waking.room(slot)

    def remove_plane(self, name: PlaneId) -> None:
        """The plane is no more, and its pods neither. What is noted of it counts until that is gone."""
        self._planes.pop(name, None)
        self.cache.notes.forget_plane(name)
        self._closed.discard(name)
        for pods in list(self.tracker.pods.values()):
            for pod in [each for each in pods.values() if each.plane == name]:
                self._observer.forget(pod)
        self._resume(name)

    def set_plane_open(self, name: PlaneId, is_open: bool) -> None:
        """Whether decisions can be sent to the plane now. What was sent before stays as it is."""
        (self._closed.discard if is_open else self._closed.add)(name)
        self._resume(name)

    def _resume(self, plane: PlaneId) -> None:
        if plane not in self._stalled:
            return
        # Not before there is room for several: else every answer would have all tenants try for one place.
        if plane not in self._closed and self.ledger.in_flight(plane) <= self._flights_max * 3 // 4:
            for tenant in self._stalled.pop(plane, ()):
                self.queue.hold(tenant, False)

    # What planes tell.

    def observe(self, event: SchedulerEvent) -> None:
        if event.plane not in self._planes:
            return
        if self._planes[event.plane] not in (None, event.tenant):
            return
        self._observer.take(event)
        # A binding may be seen before it is answered.
        self._resume(event.plane)
        if event.kind in (ObjectKind.CLAIM, ObjectKind.VOLUME):
            self._check_preparing(event.tenant)

    def bound(self, pod: ScheduledPodRef) -> None:
        """The plane took the binding."""
        found = self._find(pod)
        if found is not None and found.state is PodState.ASSUMED:
            self.ledger.taken(found)
            self._observer.preemption.note_placed(found)
            self._resume(pod.plane)

    def refused(self, pod: ScheduledPodRef, now_is: Object | None, is_repeated: bool = False) -> None:
        """The plane refused the binding for good; the pod as it is now, None if it is gone. `is_repeated`:
        it was sent before, and nobody knows what became of that."""
        found = self._find(pod)
        if found is None or found.state is not PodState.ASSUMED:
            return
        if is_repeated and now_is is not None and _may_be_bound_yet(now_is):
            self.ledger.mark_unconfirmed(found, self._clock())
            return
        self._observer.let_go(found)
        self._resume(pod.plane)
        if now_is is None:
            self._observer.forget(found)
            return
        if not now_is["spec"].get("nodeName"):
            found.state = PodState.PENDING
            self.queue.put_later(found, self._clock())
        self._observer.take(SchedulerEvent(pod.plane, pod.tenant, ObjectKind.POD, now_is))

    def unanswered(self, pod: ScheduledPodRef) -> None:
        """Nobody knows whether the plane took the binding: it will be sent again."""
        found = self._find(pod)
        if found is not None:
            self.ledger.mark_unconfirmed(found, self._clock())

    def unprepared(self, pod: ScheduledPodRef) -> None:
        """The volumes could not be had as planned."""
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

    # What is to be done.

    @property
    def next_due(self) -> float | None:
        """When there is something to decide again, if nothing happens before."""
        times = [due for due in (self.queue.due(), self.ledger.next_due()) if due is not None]
        return min(times, default=None)

    def schedule_next(self, may_tell: bool = True) -> Decision | None:
        """The next decision. None: nothing can be decided just now; or not in one call, then
        `fairness.has_ready` says that there is more. `may_tell`: pods may be told why they wait; whoever
        has enough of that to do says no."""
        now = self._clock()
        self.queue.tick(now)
        self._waking.flush()
        self._calls += 1
        early = self._send_again(now) or self._bind_prepared(now)
        if early is not None:
            return early
        if may_tell and self._calls % REPORT_TURNS == 0 and (told := self._tell_waiting(now)):
            return told
        for _ in range(ATTEMPTS_MAX):
            account = self.fairness.next()
            if account is None:
                break
            decision = self._serve(account, now)
            if decision is not None:
                return decision
            if self._clock() - now > ATTEMPTS_SECONDS_MAX:
                break
        return self._tell_waiting(now) if may_tell else None

    def _send_again(self, now: float) -> Decision | None:
        """What is in doubt, or waited for its volumes too long."""
        while (flight := self.ledger.due(now)) is not None:
            if flight.is_preparing:
                self.unprepared(ref(flight.pod))
            elif flight.plane in self._closed:
                self.ledger.mark_unconfirmed(flight.pod, now)
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

    def _tell_waiting(self, now: float) -> Decision | None:
        waiting = self.queue.untold(now)
        if waiting is None:
            return None
        pod, text = waiting
        decision = Unschedulable(ref(pod), text, pod.is_denominated)
        pod.reported_reason, pod.reported_at, pod.is_denominated = text, now, False
        return decision

    def _has_seat(self, pod: SchedulerPod) -> bool:
        """Whether one more may be under way. Where tenants share a plane, one never has all that may be: how
        long each takes, its webhooks decide."""
        most, ledger = self._flights_max, self.ledger
        if ledger.in_flight(pod.plane) >= most:
            return False
        is_shared = self._planes.get(pod.plane) is None
        return not is_shared or ledger.in_flight_of(TenantKey(pod.plane, pod.tenant)) < max(1, most * 3 // 4)

    def _serve(self, account: TenantShare, now: float) -> Decision | None:
        """The tenant's turn: place its first pod, or find out why not."""
        taken = self.queue.take(account)
        if taken is None:
            return None
        pod, ticket = taken
        plane = pod.plane
        if plane in self._closed or not self._has_seat(pod):
            self.queue.put_back(pod, ticket)
            self._stalled.setdefault(plane, set()).add(pod.tenant)
            self.queue.hold(pod.tenant, True)
            return None
        amounts = pod.shape.requests.amounts
        if objection := self.fairness.objection(account, amounts):
            self.fairness.failed(account, is_again=self.queue.was_blocked(pod))
            self.queue.block(pod, ticket, WakeCause.QUOTA, objection, now)
            return None
        self._attempt_began = self._work_clock()
        try:
            return self._attempt(account, pod, ticket, now)
        except Exception:
            if pod.state is not PodState.PENDING:
                raise
            # Nothing was decided: whatever it is about this pod must not keep the others waiting.
            log.exception("pod not judged", extra={"tenant": pod.tenant, "pod": pod.key})
            self._charge(account, pod)
            self.queue.block(pod, ticket, WakeCause.NOTHING, FAILED, now)
            return None

    def _attempt(self, account: TenantShare, pod: SchedulerPod, ticket: int, now: float) -> Decision | None:
        nominated = pod.nominated
        # The room that is kept for the pod itself is free for it, and that of less important ones too.
        self.cache.denominate(pod)
        outranked = self._outranked(pod)
        for other, _ in outranked:
            self.cache.denominate(other)
        try:
            slot = self._choose(pod, nominated)
            why = self.evaluator.explain(pod) if slot == NO_SLOT else None
            if why is None:
                return self._place(account, pod, slot, now)
            return self._fail(account, pod, ticket, nominated, why, now)
        finally:
            for other, node in outranked:
                self.cache.nominate(other, node)
                if node == pod.nominated:
                    self._renounce(other)

    def _renounce(self, pod: SchedulerPod) -> None:
        """Somebody more important was nominated for the pod's node: it has to look elsewhere."""
        self.queue.remove(pod)
        self.cache.denominate(pod)
        pod.is_denominated = True
        self.queue.add(pod)

    def _outranked(self, pod: SchedulerPod) -> list[tuple[SchedulerPod, str]]:
        """Less important pods that room is kept for, among those to whom this one's priority means something."""
        may_evict = self._observer.preemption.may_evict
        return [
            (other, node)
            for node, others in self.cache.nominated.items()
            for other in others
            if other.priority < pod.priority and may_evict(pod, other)
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
        why: SchedulingExplanation,
        now: float,
    ) -> Decision | None:
        found = self._preempt(pod, nominated, why) if why.nodes else PreemptionOutcome()
        self._charge(account, pod)
        if found.candidate is not None:
            return self._make_room(pod, ticket, found.candidate, why, now)
        text = f"{why.text} preemption: {found.text}" if found.text else why.text
        pod.is_denominated = pod.is_denominated or (bool(nominated) and not pod.nominated)
        if found.is_partial:
            self.queue.block_for_now(pod, ticket, why.cured_by, text, now)
        else:
            self.queue.block(pod, ticket, why.cured_by, text, now)
        return None

    def _charge(self, account: TenantShare, pod: SchedulerPod) -> None:
        """The tenant's attempt failed."""
        worked = self._work_clock() - self._attempt_began
        self.fairness.failed(account, worked, self.queue.was_blocked(pod))

    def _preempt(self, pod: SchedulerPod, nominated: str, why: SchedulingExplanation) -> PreemptionOutcome:
        """Whom to evict, or why that does not help."""
        preemption = self._observer.preemption
        if message := preemption.ineligible(pod, nominated, why):
            if nominated and pod.may_preempt:
                self.cache.nominate(pod, nominated)
            return PreemptionOutcome(text=message)
        return preemption.find(pod, why)

    def _make_room(
        self,
        pod: SchedulerPod,
        ticket: int,
        candidate: PreemptionCandidate,
        why: SchedulingExplanation,
        now: float,
    ) -> Decision:
        node = self.cache.nodes.name(candidate.slot)
        self._observer.preemption.doomed.update(candidate.victims)
        self.cache.nominate(pod, node)
        pod.reported_reason, pod.reported_at, pod.is_denominated = why.text, now, False
        self.queue.block(pod, ticket, why.cured_by | WakeCause.ROOM | WakeCause.POD_GONE, why.text, now)
        return Preempt(ref(pod), node, tuple(ref(victim) for victim in candidate.victims), why.text)

    def _check_preparing(self, tenant: TenantId) -> None:
        """Pods of the tenant that wait for volumes: whose are all there, and whose will not come."""
        for flight in list(self.ledger.flights.values()):
            pod = flight.pod
            if not flight.is_preparing or pod.tenant != tenant:
                continue
            claims = self.cache.storage(tenant).claims
            found = [claims.get((pod.namespace, use.name)) for use in pod.shape.claims]
            asked = {claim.key for claim in found if claim is not None and claim.selected_node}
            if any(claim is None for claim in found) or flight.selected - asked - _bound(found):
                # A provisioner that cannot provide takes its node's name off the claim.
                self.unprepared(ref(pod))
            elif len(_bound(found)) == len(found):
                self._prepared.append(flight)
            else:
                flight.selected |= asked


def _may_be_bound_yet(pod: Object) -> bool:
    return not pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")


def _bound(claims: list[VolumeClaim | None]) -> set[ClaimKey]:
    return {claim.key for claim in claims if claim is not None and claim.is_bound}
