"""Cohorts: pending pods of one tenant that scheduling cannot tell apart, in order of age.

What is found for one holds for all: if one fits nowhere, the cohort is blocked as a whole, and woken
as a whole when something happens that may help.
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
        "has_untold",
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
        """Number of its one valid entry in the tenant's line; 0: it has none."""
        self.has_untold = False
        """Whether there may be pods in it that were not told why they wait."""
        self._heap: list[tuple[str, int, SchedulerPod]] = []
        self.row = -1
        """Where it is in the table of blocked ones; -1: it is not blocked."""
        self.was_blocked = False
        """One of them was tried before, and fitted nowhere."""
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
        self.has_untold = self.has_untold or not pod.reported_reason

    def head(self) -> Head | None:
        """Of the pods still in line."""
        heap = self._heap
        while heap and heap[0][2].queued != heap[0][1]:
            heapq.heappop(heap)
        return (-self.key[2], heap[0][0], heap[0][1]) if heap else None

    def take(self) -> SchedulerPod:
        """The first pod, which leaves the line."""
        pod = heapq.heappop(self._heap)[2]
        pod.queued = 0
        self.size -= 1
        return pod

    def __iter__(self) -> Iterator[SchedulerPod]:
        return (pod for _, queued, pod in self._heap if pod.queued == queued)
