"""Requeues blocked pods that an event may unblock; nothing else does."""

from __future__ import annotations

from alcove.api.ids import TenantId
from alcove.scheduler.affinity_index import Links
from alcove.scheduler.causes import WakeCause
from alcove.scheduler.cohorts import Cohort
from alcove.scheduler.fairness import FairShareQueue
from alcove.scheduler.nodes import NodeFacts
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.queue import SchedulingQueue
from alcove.scheduler.scheduler_cache import NOWHERE, SchedulerCache

_SLOTS_AT_ONCE = 256


class Requeuer:
    def __init__(self, cache: SchedulerCache, queue: SchedulingQueue, fairness: FairShareQueue) -> None:
        self._cache = cache
        self._queue = queue
        self._fairness = fairness
        self._freed_slots: set[int] = set()
        """Slots on which resources were released since the last `flush`."""

    def node_changed(self, old: NodeFacts | None, new: NodeFacts) -> None:
        if old is None or old.allocatable != new.allocatable:
            self._capacity_changed()
        if old is None:
            self._wake(WakeCause.NODE_ADDED)
            return
        cause = WakeCause.NOTHING
        if any(amount > old.allocatable.get(name, 0) for name, amount in new.allocatable.items()):
            cause |= WakeCause.NODE_GREW
        if old.labels != new.labels:
            cause |= WakeCause.NODE_RELABELED
        if (old.taints, old.is_unschedulable) != (new.taints, new.is_unschedulable):
            cause |= WakeCause.NODE_RETAINTED
        if old.handlers != new.handlers:
            cause |= WakeCause.NODE_HANDLERS
        if cause:
            self._wake(cause)

    def node_removed(self) -> None:
        self._capacity_changed()
        self._wake(WakeCause.NODE_REMOVED)

    def _capacity_changed(self) -> None:
        """The amounts reserved for guaranteed minimums may have changed."""
        if self._fairness.has_minima:
            self.quota(None)

    def pod_placed(self, pod: SchedulerPod) -> None:
        self._wake_about(pod, WakeCause.POD_PLACED)

    def pod_gone(self, pod: SchedulerPod, slot: int) -> None:
        """The pod held resources on the slot until now."""
        self._wake_about(pod, WakeCause.POD_GONE)
        self.room(slot)
        self.quota(pod.tenant)
        if self._fairness.has_minima and len(self._queue.blocked):
            rows, room = self._cache.nodes.rows, self._fairness.unguaranteed()
            limits = [(rows[resource], amount) for resource, amount in room.items() if resource in rows]
            self._queue.wake(self._queue.blocked.within(WakeCause.UNGUARANTEED, limits))

    def room(self, slot: int) -> None:
        if slot != NOWHERE:
            self._freed_slots.add(slot)

    def relabeled(self, tenant: TenantId) -> None:
        self._wake(WakeCause.POD_RELABELED, tenant)

    def storage(self, tenant: TenantId) -> None:
        self._wake(WakeCause.STORAGE, tenant)

    def runtime_classes(self, tenant: TenantId) -> None:
        self._wake(WakeCause.RUNTIME_CLASS, tenant)

    def quota(self, tenant: TenantId | None) -> None:
        self._wake(WakeCause.QUOTA, tenant)

    def flush(self) -> None:
        """Requeues pods that may fit on the slots with released resources."""
        if not self._freed_slots:
            return
        if len(self._queue.blocked):
            slots = sorted(self._freed_slots)
            self._wake_nominated(slots)
            if len(slots) > _SLOTS_AT_ONCE:
                self._wake(WakeCause.ROOM)
            else:
                self._queue.wake(self._queue.blocked.fitting(self._cache.nodes, slots))
        self._freed_slots.clear()

    def _wake_nominated(self, slots: list[int]) -> None:
        """Requeues pods nominated for the slots: their reserved resources count as used for all other
        pods."""
        nominated = self._cache.nominated
        for slot in slots if nominated else ():
            for pod in list(nominated.get(self._cache.nodes.name(slot), ())):
                self._queue.wake_pod(pod)

    def _wake(self, cause: WakeCause, tenant: TenantId | None = None) -> None:
        if len(self._queue.blocked):
            account = None if tenant is None else self._fairness.account(tenant)
            self._queue.wake(self._queue.blocked.helped(cause, account))

    def _wake_about(self, pod: SchedulerPod, cause: WakeCause) -> None:
        """Requeues the tenant's pods that have terms about such pods, or were repelled by it."""
        if len(self._queue.blocked):
            account = self._fairness.account(pod.tenant)
            helped = self._queue.blocked.helped(cause, account)
            self._queue.wake([cohort for cohort in helped if _concerns(pod, cohort)])


def _concerns(pod: SchedulerPod, cohort: Cohort) -> bool:
    if pod.shape.links.rules or cohort.shape.claims:
        return True
    links = cohort.shape.links
    assert isinstance(links, Links)
    selections = (*links.near, *links.far, *links.spread_hard)
    return any(selection in pod.group.selections for selection in selections)
