"""Pending pods: a line per tenant, ready or blocked, and those that have to wait a while.

Within a tenant the order is priority, then age. A blocked cohort costs nothing until an event may help
it; its pods are told why, each once, when there is time.
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
"""After so long a cohort is tried again, whatever happened: should an event have been missed."""


RETELL_SECONDS = 10.0
"""A reason that changed is told again after so long, not sooner."""


def _is_news(pod: SchedulerPod, text: str, now: float) -> bool:
    return not pod.reported_reason or (
        pod.reported_reason != text and now - pod.reported_at >= RETELL_SECONDS
    )


class TenantQueue:
    """One tenant's."""

    __slots__ = ("_entries", "_ready", "account", "cohorts", "is_held")

    def __init__(self, account: TenantShare) -> None:
        self.account = account
        self.cohorts: dict[CohortKey, Cohort] = {}
        self._ready: list[tuple[Head, int, Cohort]] = []
        self._entries = 0
        self.is_held = False
        """Nothing of it is ready for now, whatever is in it."""

    def first(self) -> Cohort | None:
        """The ready cohort whose turn it is."""
        while self._ready:
            head, entry, cohort = self._ready[0]
            if entry == cohort.entry and not cohort.is_blocked and cohort.head() == head:
                return cohort
            heapq.heappop(self._ready)
            if entry == cohort.entry:
                self.enter(cohort)
        return None

    def enter(self, cohort: Cohort) -> None:
        """The cohort's place in the line is found anew."""
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
        self._lines: dict[TenantId, TenantQueue] = {}
        self._tickets = 0
        self._later: list[tuple[float, int, SchedulerPod]] = []
        self._again: list[tuple[float, int, Cohort]] = []
        self._untold: OrderedDict[TenantId, deque[tuple[SchedulerPod, Cohort]]] = OrderedDict()
        self._checked_at = 0.0
        self.blocked = Blocked()
        self.size = 0

    def add(self, pod: SchedulerPod) -> None:
        """The pod wants a place from now on."""
        self._tickets += 1
        self._enter(pod, self._tickets)

    def _enter(self, pod: SchedulerPod, ticket: int) -> None:
        line = self._line(pod.tenant)
        key = cohort_key(pod)
        cohort = line.cohorts.get(key)
        if cohort is None:
            cohort = line.cohorts[key] = Cohort(key, line.account)
        pod.queued = ticket
        self.size += 1
        cohort.add(pod)
        if cohort.is_blocked:
            self._tell_later(pod, cohort)
            return
        if cohort.head() == (-pod.priority, pod.created, ticket):
            line.enter(cohort)
            self._update(line)

    def _line(self, tenant: TenantId) -> TenantQueue:
        line = self._lines.get(tenant)
        if line is None:
            line = self._lines[tenant] = TenantQueue(self._fairness.account(tenant))
        return line

    def forget(self, tenant: TenantId) -> None:
        """The tenant is gone, and has no pods in line."""
        line = self._lines.pop(tenant, None)
        if line is not None:
            self.blocked.forget(line.account)

    def _update(self, line: TenantQueue) -> None:
        first = None if line.is_held else line.first()
        if first is None:
            self._fairness.set_head(line.account, None)
        else:
            self._fairness.set_head(line.account, first.head(), first.shape.requests.amounts)

    def remove(self, pod: SchedulerPod) -> None:
        """The pod wants no place any more. Its key must be as it was when it was added."""
        queued, pod.queued = pod.queued, 0
        if queued <= 0:
            return
        self.size -= 1
        line = self._line(pod.tenant)
        cohort = line.cohorts.get(cohort_key(pod))
        if cohort is not None:
            cohort.size -= 1
            self._drop_if_empty(line, cohort)
        self._update(line)

    def _drop_if_empty(self, line: TenantQueue, cohort: Cohort) -> None:
        if cohort.size == 0:
            if cohort.is_blocked:
                self.blocked.remove(cohort)
            del line.cohorts[cohort.key]

    def take(self, account: TenantShare) -> tuple[SchedulerPod, int] | None:
        """The tenant's first pod, which leaves the line, and its ticket to come back with."""
        line = self._lines[account.tenant]
        cohort = line.first()
        if cohort is None:
            self._fairness.set_head(account, None)
            return None
        head = cohort.head()
        assert head is not None
        pod = cohort.take()
        self.size -= 1
        self._drop_if_empty(line, cohort)
        line.enter(cohort)
        self._update(line)
        return pod, head[2]

    def hold(self, tenant: TenantId, is_held: bool) -> None:
        """Nothing of the tenant's can be served just now (or it can again)."""
        line = self._line(tenant)
        line.is_held = is_held
        self._update(line)

    def put_back(self, pod: SchedulerPod, ticket: int) -> None:
        """To where it was taken from, or where it belongs now."""
        self._enter(pod, ticket)

    def put_later(self, pod: SchedulerPod, now: float) -> None:
        """Something went wrong that may be mended by itself: again in a while, longer each time."""
        delay = min(BACKOFF_SECONDS * 2 ** min(pod.attempts, _DOUBLINGS_MAX), BACKOFF_SECONDS_MAX)
        pod.attempts += 1
        self._tickets += 1
        pod.queued = -self._tickets
        heapq.heappush(self._later, (now + delay, self._tickets, pod))

    def was_blocked(self, pod: SchedulerPod) -> bool:
        """Whether the pod, or one that is its equal, was tried before in vain."""
        cohort = self._line(pod.tenant).cohorts.get(cohort_key(pod))
        return pod.was_blocked or (cohort is not None and cohort.was_blocked)

    def block_for_now(
        self, pod: SchedulerPod, ticket: int, cured_by: WakeCause, text: str, now: float
    ) -> None:
        """As `block`; but not all that could be tried was, so there will be another attempt, later each time."""
        delay = min(BACKOFF_SECONDS * 2 ** min(pod.attempts, _DOUBLINGS_MAX), BLOCKED_SECONDS_MAX)
        pod.attempts += 1
        cohort = self.block(pod, ticket, cured_by, text, now)
        self._tickets += 1
        heapq.heappush(self._again, (now + delay, self._tickets, cohort))

    def block(self, pod: SchedulerPod, ticket: int, cured_by: WakeCause, text: str, now: float) -> Cohort:
        """The pod, and with it all its equals, waits for something to happen."""
        line = self._line(pod.tenant)
        key = cohort_key(pod)
        cohort = line.cohorts.get(key)
        if cohort is None:
            cohort = line.cohorts[key] = Cohort(key, line.account)
        pod.queued = ticket
        cohort.add(pod)
        self.size += 1
        if cohort.is_blocked:
            self.blocked.remove(cohort)
        cohort.cured_by, cohort.text, cohort.since = cured_by, text, now
        pod.was_blocked = cohort.was_blocked = True
        self.blocked.add(cohort, self._cache.demand(pod.shape).amounts)
        self._tell_later(pod, cohort)
        if cohort.has_untold:
            for other in cohort:
                if other is not pod and not other.reported_reason:
                    self._tell_later(other, cohort)
            cohort.has_untold = False
        self._update(line)
        return cohort

    def _tell_later(self, pod: SchedulerPod, cohort: Cohort) -> None:
        if pod.needs_report:
            return
        pod.needs_report = True
        self._untold.setdefault(pod.tenant, deque()).append((pod, cohort))

    def untold(self, now: float) -> tuple[SchedulerPod, str] | None:
        """A pod that waits in a blocked cohort and is to be told why; tenants take turns."""
        while self._untold:
            tenant, pods = self._untold.popitem(last=False)
            pod, cohort = pods.popleft()
            pod.needs_report = False
            if pods:
                self._untold[tenant] = pods
            if pod.queued <= 0:
                continue
            if not cohort.is_blocked:
                cohort.has_untold = cohort.has_untold or not pod.reported_reason
            elif pod.is_denominated or _is_news(pod, cohort.text, now):
                return pod, cohort.text
        return None

    def wake(self, cohorts: list[Cohort]) -> None:
        for cohort in cohorts:
            if cohort.is_blocked:
                self.blocked.remove(cohort)
                line = self._line(cohort.account.tenant)
                line.enter(cohort)
                self._update(line)

    def wake_pod(self, pod: SchedulerPod) -> None:
        cohort = self._line(pod.tenant).cohorts.get(cohort_key(pod))
        if cohort is not None:
            self.wake([cohort])

    def tick(self, now: float) -> None:
        """What is due by now."""
        while self._later and self._later[0][0] <= now:
            _, ticket, pod = heapq.heappop(self._later)
            if pod.queued == -ticket:
                self._enter(pod, ticket)
        while self._again and self._again[0][0] <= now:
            self.wake([heapq.heappop(self._again)[2]])
        if now - self._checked_at > BLOCKED_SECONDS_MAX / 10:
            self._checked_at = now
            self.wake(self.blocked.since(now - BLOCKED_SECONDS_MAX))

    def due(self) -> float | None:
        """When `tick` has something to do next, at the latest."""
        times = [entries[0][0] for entries in (self._later, self._again) if entries]
        if len(self.blocked):
            times.append(self._checked_at + BLOCKED_SECONDS_MAX / 10)
        return min(times, default=None)
