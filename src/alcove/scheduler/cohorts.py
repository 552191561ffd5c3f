"""Cohorts: pending pods of one tenant that scheduling cannot tell apart, in order of age.

A result for one pod holds for all: if one does not fit, the whole cohort is blocked, and requeued as a whole
when an event may unblock it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from alcove.scheduler.causes import WakeCause
from alcove.scheduler.fairness import Head, TenantShare
from alcove.scheduler.groups import PodGroup
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.shapes import PodShape

CohortKey = tuple[PodShape, PodGroup, int, bool, str]
"""(shape, group, priority, may preempt, nominated node)"""


def cohort_key(pod: SchedulerPod) -> CohortKey:
    return (pod.shape, pod.group, pod.priority, pod.may_preempt, pod.nominated)


class Cohort:
    __slots__ = (
        "_heap",
        "account",
        "cured_by",
        "entry",
        "has_unreported",
        "key",
        "row",
        "since",
        "size",
        "text",
        "was_blocked",
    )

    def __init__(self, key: CohortKey, account: TenantShare) -> None:
        self.key = key
        self.account = account
        self.size = 0
        self.entry = 0
        """Number of its valid entry in the tenant's queue; 0 if it has none."""
        self.has_unreported = False
        """Whether some of its pods may have no reported reason yet."""
        self._heap: list[tuple[str, int, SchedulerPod]] = []
        self.row = -1
        """Row in the table of blocked cohorts; -1 if it is not blocked."""
        self.was_blocked = False
        """Whether one of its pods was unschedulable before."""
        self.cured_by = WakeCause.NOTHING
        self.since = 0.0
        self.text = ""
        """Why it is blocked, for users."""

    @property
    def shape(self) -> PodShape:
        return self.key[0]

    @property
    def is_blocked(self) -> bool:
        return self.row >= 0

    def add(self, pod: SchedulerPod) -> None:
        heapq.heappush(self._heap, (pod.created, pod.queued, pod))
        self.size += 1
        self.has_unreported = self.has_unreported or not pod.reported_reason

    def head(self) -> Head | None:
        """Sort key of the first queued pod. None if the cohort is empty."""
        heap = self._heap
        while heap and heap[0][2].queued != heap[0][1]:
            heapq.heappop(heap)
        return (-self.key[2], heap[0][0], heap[0][1]) if heap else None

    def take(self) -> SchedulerPod:
        """Removes and returns the first pod."""
        pod = heapq.heappop(self._heap)[2]
        pod.queued = 0
        self.size -= 1
        return pod

    def __iter__(self) -> Iterator[SchedulerPod]:
        return (pod for _, queued, pod in self._heap if pod.queued == queued)
