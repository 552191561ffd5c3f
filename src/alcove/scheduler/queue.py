"""Pending pods: a queue per tenant with ready and blocked cohorts, and pods in backoff.

Within a tenant the order is priority, then age. A blocked cohort costs nothing until an event may unblock it.
The reason is reported once for each of its pods, with low precedence.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque

from alcove.api.ids import TenantId
from alcove.scheduler.blocked import Blocked
from alcove.scheduler.causes import WakeCause
from alcove.scheduler.cohorts import Cohort, CohortKey, cohort_key
from alcove.scheduler.fairness import FairShareQueue, Head, TenantShare
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache

BACKOFF_SECONDS = 1.0
BACKOFF_SECONDS_MAX = 10.0
_DOUBLINGS_MAX = 16
BLOCKED_SECONDS_MAX = 300.0
"""A blocked cohort is retried after this time, in case an event was missed."""


REPORT_SECONDS_MIN = 10.0
"""A changed reason is reported again after this time at the earliest."""


def _must_report(pod: SchedulerPod, text: str, now: float) -> bool:
    return not pod.reported_reason or (
        pod.reported_reason != text and now - pod.reported_at >= REPORT_SECONDS_MIN
    )


class TenantQueue:
    """One tenant's cohorts."""

    __slots__ = ("_entries", "_ready", "account", "cohorts", "is_held")

    def __init__(self, account: TenantShare) -> None:
        self.account = account
        self.cohorts: dict[CohortKey, Cohort] = {}
        self._ready: list[tuple[Head, int, Cohort]] = []
        self._entries = 0
        self.is_held = False
        """While set, none of the tenant's pods is ready."""

    def first(self) -> Cohort | None:
        """The first ready cohort. None if there is none."""
        while self._ready:
            head, entry, cohort = self._ready[0]
            if entry == cohort.entry and not cohort.is_blocked and cohort.head() == head:
                return cohort
            heapq.heappop(self._ready)
            if entry == cohort.entry:
                self.enter(cohort)
        return None

    def enter(self, cohort: Cohort) -> None:
        """Updates the cohort's position."""
        head = None if cohort.is_blocked else cohort.head()
        if head is None:
            cohort.entry = 0
            return
        self._entries += 1
        cohort.entry = self._entries
        heapq.heappush(self._ready, (head, self._entries, cohort))


class SchedulingQueue:
    def __init__(self, cache: SchedulerCache, fairness: FairShareQueue) -> None:
        self._cache = cache
        self._fairness = fairness
        self._queues: dict[TenantId, TenantQueue] = {}
        self._tickets = 0
        self._backoff: list[tuple[float, int, SchedulerPod]] = []
        self._retries: list[tuple[float, int, Cohort]] = []
        self._unreported: OrderedDict[TenantId, deque[tuple[SchedulerPod, Cohort]]] = OrderedDict()
        self._checked_at = 0.0
        self.blocked = Blocked()
        self.size = 0

    def add(self, pod: SchedulerPod) -> None:
        """Queues a pending pod."""
        self._tickets += 1
        self._enter(pod, self._tickets)

    def _enter(self, pod: SchedulerPod, ticket: int) -> None:
        queue = self._queue(pod.tenant)
        key = cohort_key(pod)
        cohort = queue.cohorts.get(key)
        if cohort is None:
            cohort = queue.cohorts[key] = Cohort(key, queue.account)
        pod.queued = ticket
        self.size += 1
        cohort.add(pod)
        if cohort.is_blocked:
            self._report_later(pod, cohort)
            return
        if cohort.head() == (-pod.priority, pod.created, ticket):
            queue.enter(cohort)
            self._update(queue)

    def _queue(self, tenant: TenantId) -> TenantQueue:
        queue = self._queues.get(tenant)
        if queue is None:
            queue = self._queues[tenant] = TenantQueue(self._fairness.account(tenant))
        return queue

    def forget(self, tenant: TenantId) -> None:
        """Forgets a deleted tenant that has no queued pods."""
        queue = self._queues.pop(tenant, None)
        if queue is not None:
            self.blocked.forget(queue.account)

    def _update(self, queue: TenantQueue) -> None:
        first = None if queue.is_held else queue.first()
        if first is None:
            self._fairness.set_head(queue.account, None)
        else:
            self._fairness.set_head(queue.account, first.head(), first.shape.requests.amounts)

    def remove(self, pod: SchedulerPod) -> None:
        """Removes a pod. Its cohort key must be the same as when it was added."""
        queued, pod.queued = pod.queued, 0
        if queued <= 0:
            return
        self.size -= 1
        queue = self._queue(pod.tenant)
        cohort = queue.cohorts.get(cohort_key(pod))
        if cohort is not None:
            cohort.size -= 1
            self._drop_if_empty(queue, cohort)
        self._update(queue)

    def _drop_if_empty(self, queue: TenantQueue, cohort: Cohort) -> None:
        if cohort.size == 0:
            if cohort.is_blocked:
                self.blocked.remove(cohort)
            del queue.cohorts[cohort.key]

    def take(self, account: TenantShare) -> tuple[SchedulerPod, int] | None:
        """Removes and returns the tenant's first pod, with its ticket for `put_back`. None if there is
        none."""
        queue = self._queues[account.tenant]
        cohort = queue.first()
        if cohort is None:
            self._fairness.set_head(account, None)
            return None
        head = cohort.head()
        assert head is not None
        pod = cohort.take()
        self.size -= 1
        self._drop_if_empty(queue, cohort)
        queue.enter(cohort)
        self._update(queue)
        return pod, head[2]

    def hold(self, tenant: TenantId, is_held: bool) -> None:
        """Sets whether the tenant's pods are on hold."""
        queue = self._queue(tenant)
        queue.is_held = is_held
        self._update(queue)

    def put_back(self, pod: SchedulerPod, ticket: int) -> None:
        """Queues a taken pod again, with its original ticket."""
        self._enter(pod, ticket)

    def put_later(self, pod: SchedulerPod, now: float) -> None:
        """Queues the pod again after an exponential backoff."""
        delay = min(BACKOFF_SECONDS * 2 ** min(pod.attempts, _DOUBLINGS_MAX), BACKOFF_SECONDS_MAX)
        pod.attempts += 1
        self._tickets += 1
        pod.queued = -self._tickets
        heapq.heappush(self._backoff, (now + delay, self._tickets, pod))

    def was_blocked(self, pod: SchedulerPod) -> bool:
        """Whether the pod, or another of its cohort, was unschedulable before."""
        cohort = self._queue(pod.tenant).cohorts.get(cohort_key(pod))
        return pod.was_blocked or (cohort is not None and cohort.was_blocked)

    def block_for_now(
        self, pod: SchedulerPod, ticket: int, cured_by: WakeCause, text: str, now: float
    ) -> None:
        """As `block`, but with a retry after an exponential backoff: not all nodes were tried."""
        delay = min(BACKOFF_SECONDS * 2 ** min(pod.attempts, _DOUBLINGS_MAX), BLOCKED_SECONDS_MAX)
        pod.attempts += 1
        cohort = self.block(pod, ticket, cured_by, text, now)
        self._tickets += 1
        heapq.heappush(self._retries, (now + delay, self._tickets, cohort))

    def block(self, pod: SchedulerPod, ticket: int, cured_by: WakeCause, text: str, now: float) -> Cohort:
        """Blocks the pod and its cohort until one of the events `cured_by`."""
        queue = self._queue(pod.tenant)
        key = cohort_key(pod)
        cohort = queue.cohorts.get(key)
        if cohort is None:
            cohort = queue.cohorts[key] = Cohort(key, queue.account)
        pod.queued = ticket
        cohort.add(pod)
        self.size += 1
        if cohort.is_blocked:
            self.blocked.remove(cohort)
        cohort.cured_by, cohort.text, cohort.since = cured_by, text, now
        pod.was_blocked = cohort.was_blocked = True
        self.blocked.add(cohort, self._cache.demand(pod.shape).amounts)
        self._report_later(pod, cohort)
        if cohort.has_unreported:
            for other in cohort:
                if other is not pod and not other.reported_reason:
                    self._report_later(other, cohort)
            cohort.has_unreported = False
        self._update(queue)
        return cohort

    def _report_later(self, pod: SchedulerPod, cohort: Cohort) -> None:
        if pod.needs_report:
            return
        pod.needs_report = True
        self._unreported.setdefault(pod.tenant, deque()).append((pod, cohort))

    def unreported(self, now: float) -> tuple[SchedulerPod, str] | None:
        """The next blocked pod whose reason has to be reported; tenants take turns. None if there is none."""
        while self._unreported:
            tenant, pods = self._unreported.popitem(last=False)
            pod, cohort = pods.popleft()
            pod.needs_report = False
            if pods:
                self._unreported[tenant] = pods
            if pod.queued <= 0:
                continue
            if not cohort.is_blocked:
                cohort.has_unreported = cohort.has_unreported or not pod.reported_reason
            elif pod.is_denominated or _must_report(pod, cohort.text, now):
                return pod, cohort.text
        return None

    def wake(self, cohorts: list[Cohort]) -> None:
        for cohort in cohorts:
            if cohort.is_blocked:
                self.blocked.remove(cohort)
                queue = self._queue(cohort.account.tenant)
                queue.enter(cohort)
                self._update(queue)

    def wake_pod(self, pod: SchedulerPod) -> None:
        cohort = self._queue(pod.tenant).cohorts.get(cohort_key(pod))
        if cohort is not None:
            self.wake([cohort])

    def tick(self, now: float) -> None:
        """Processes backoffs and retries that are due."""
        while self._backoff and self._backoff[0][0] <= now:
            _, ticket, pod = heapq.heappop(self._backoff)
            if pod.queued == -ticket:
                self._enter(pod, ticket)
        while self._retries and self._retries[0][0] <= now:
            self.wake([heapq.heappop(self._retries)[2]])
        if now - self._checked_at > BLOCKED_SECONDS_MAX / 10:
            self._checked_at = now
            self.wake(self.blocked.since(now - BLOCKED_SECONDS_MAX))

    def due(self) -> float | None:
        """Time of the next `tick` with work to do. None if there is none."""
        times = [entries[0][0] for entries in (self._backoff, self._retries) if entries]
        if len(self.blocked):
            times.append(self._checked_at + BLOCKED_SECONDS_MAX / 10)
        return min(times, default=None)
