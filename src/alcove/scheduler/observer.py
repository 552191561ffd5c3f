"""The observer: takes in what planes tell and keeps world, ledger and queue true to it.

What a plane tells may be late, repeated, or out of step with what was decided; an object without a node
says nothing about a pod that has one. A plane speaks only for the tenants it serves.
"""

from __future__ import annotations

from collections.abc import Callable

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object, labels, name
from alcove.client.keys import HOME
from alcove.scheduler import storage, tenants
from alcove.scheduler.budgets import DisruptionBudget, read_budget
from alcove.scheduler.evaluator import NodeEvaluator
from alcove.scheduler.events import ObjectKind, SchedulerEvent
from alcove.scheduler.fairness import FairShareQueue
from alcove.scheduler.ledger import Ledger
from alcove.scheduler.nodes import read_node
from alcove.scheduler.notes import read_note
from alcove.scheduler.pod_tracker import PodPlacement, PodTracker, is_same, read_placement
from alcove.scheduler.pods import PodState, SchedulerPod
from alcove.scheduler.preemption import Preemption
from alcove.scheduler.profiles import Profiles
from alcove.scheduler.queue import SchedulingQueue
from alcove.scheduler.requeue import Requeuer
from alcove.scheduler.scheduler_cache import SchedulerCache

_RING0S = (ObjectKind.NODE, ObjectKind.TENANT, ObjectKind.NOTE)


class Observer:
    def __init__(
        self,
        cache: SchedulerCache,
        tracker: PodTracker,
        fairness: FairShareQueue,
        queue: SchedulingQueue,
        ledger: Ledger,
        waking: Requeuer,
        evaluator: NodeEvaluator,
        profiles: Profiles,
    ) -> None:
        self._cache = cache
        self._tracker = tracker
        self._fairness = fairness
        self._queue = queue
        self._ledger = ledger
        self._waking = waking
        self._evaluator = evaluator
        self._profiles = profiles
        self._budgets: dict[TenantId, dict[tuple[str, str], DisruptionBudget]] = {}
        self._victims: dict[TenantId, tuple[TenantId, ...]] = {}
        self._ended: set[TenantId] = set()
        """Tenants that are gone, of whom something is still known."""
        self.preemption = Preemption(cache, evaluator, self.budgets, self.victims)
        self._takers: dict[ObjectKind, Callable[[SchedulerEvent], None]] = {
            ObjectKind.POD: self._pod,
            ObjectKind.NODE: self._node,
            ObjectKind.CLAIM: self._claim,
            ObjectKind.VOLUME: self._volume,
            ObjectKind.STORAGE_CLASS: self._storage_class,
            ObjectKind.BUDGET: self._budget,
            ObjectKind.NAMESPACE: self._namespace,
            ObjectKind.RUNTIME_CLASS: self._runtime_class,
            ObjectKind.TENANT: self._tenant,
            ObjectKind.NOTE: self._note,
        }

    def take(self, event: SchedulerEvent) -> None:
        if event.is_gone and event.kind not in _RING0S and not self._knows(event.tenant):
            return
        self._takers[event.kind](event)

    def _knows(self, tenant: TenantId) -> bool:
        """Whether anything of the tenant's is known: of one that is gone, the last news may come late."""
        cache = self._cache
        places = (self._tracker.pods, cache.books, cache.storages, cache.handlers, self._budgets)
        return any(tenant in place for place in places)

    def budgets(self, tenant: TenantId) -> list[DisruptionBudget]:
        return list(self._budgets.get(tenant, {}).values())

    def victims(self, tenant: TenantId) -> tuple[TenantId, ...]:
        return self._victims.get(tenant, ())

    def _node(self, event: SchedulerEvent) -> None:
        if event.tenant != SYSTEM or event.plane != HOME:
            return
        nodes = self._cache.nodes
        node = name(event.obj)
        slot = nodes.slot(node)
        if event.is_gone:
            if slot is not None:
                self._cache.remove_node(node)
                self._set_capacity()
                self._waking.node_removed()
            return
        facts = read_node(event.obj)
        old = None if slot is None else nodes.facts[slot]
        if facts == old:
            return
        self._cache.put_node(facts)
        if old is None or old.allocatable != facts.allocatable:
            self._set_capacity()
        self._waking.node_changed(old, facts)

    def _note(self, event: SchedulerEvent) -> None:
        if event.tenant != SYSTEM or event.plane != HOME:
            return
        node = name(event.obj)
        self._cache.notes.put(node, None if event.is_gone else read_note(event.obj))
        slot = self._cache.nodes.slot(node)
        if slot is not None:
            self._waking.room(slot)

    def _set_capacity(self) -> None:
        nodes = self._cache.nodes
        self._fairness.set_capacity({resource: nodes.capacity(resource) for resource in nodes.rows})

    def _tenant(self, event: SchedulerEvent) -> None:
        if event.tenant != SYSTEM or event.plane != HOME:
            return
        tenant = TenantId(name(event.obj))
        given: Object = {} if event.is_gone else event.obj
        account = self._fairness.account(tenant)
        limits = tenants.read_limits(given)
        if limits != account.limits:
            self._fairness.set_limits(account, limits)
            self._waking.quota(None)
        self._victims[tenant] = tenants.read_victims(given)
        if event.is_gone:
            self._ended.add(tenant)
        else:
            self._ended.discard(tenant)
        self._forget_ended()

    def _forget_ended(self) -> None:
        """Tenants that are gone leave nothing behind, once the last of their pods is known to be gone too."""
        for tenant in [each for each in self._ended if not self._tracker.pods.get(each)]:
            self._ended.remove(tenant)
            self._victims.pop(tenant, None)
            self._budgets.pop(tenant, None)
            self._tracker.forget(tenant)
            self._queue.forget(tenant)
            self._fairness.forget(tenant)
            self._cache.forget(tenant)

    def _namespace(self, event: SchedulerEvent) -> None:
        given = None if event.is_gone else dict(labels(event.obj))
        self._cache.book(event.tenant).set_namespace(name(event.obj), given)
        self._waking.relabeled(event.tenant)

    def _runtime_class(self, event: SchedulerEvent) -> None:
        handlers = self._cache.handlers.setdefault(event.tenant, {})
        if event.is_gone:
            handlers.pop(name(event.obj), None)
        else:
            handlers[name(event.obj)] = event.obj.get("handler") or ""
        self._evaluator.memos.forget_all()
        self._waking.runtime_classes(event.tenant)

    def _budget(self, event: SchedulerEvent) -> None:
        budgets = self._budgets.setdefault(event.tenant, {})
        key = (event.obj["metadata"].get("namespace", ""), name(event.obj))
        if event.is_gone:
            budgets.pop(key, None)
        else:
            budgets[key] = read_budget(event.tenant, event.obj)

    def _claim(self, event: SchedulerEvent) -> None:
        kept = self._cache.storage(event.tenant)
        claim = storage.read_claim(event.obj)
        if event.is_gone:
            kept.claims.pop(claim.key, None)
        else:
            kept.claims[claim.key] = claim
        self._waking.storage(event.tenant)

    def _volume(self, event: SchedulerEvent) -> None:
        kept = self._cache.storage(event.tenant)
        volume = storage.read_volume(event.obj)
        if event.is_gone:
            kept.volumes.pop(volume.name, None)
        else:
            kept.volumes[volume.name] = volume
        self._waking.storage(event.tenant)

    def _storage_class(self, event: SchedulerEvent) -> None:
        kept = self._cache.storage(event.tenant)
        if event.is_gone:
            kept.classes.pop(name(event.obj), None)
        else:
            kept.classes[name(event.obj)] = storage.read_class(event.obj)
        self._waking.storage(event.tenant)

    def _pod(self, event: SchedulerEvent) -> None:
        pods = self._tracker.pods.setdefault(event.tenant, {})
        pod = pods.get(event.obj["metadata"]["uid"])
        placement = read_placement(event.obj)
        if event.is_gone or placement.is_finished:
            # A plane that a tenant moved away from says nothing of the pods that moved along.
            if pod is not None and pod.plane == event.plane:
                self.forget(pod)
            return
        if pod is None and not placement.node and not self._is_ours(event.obj, placement):
            return
        read = self._tracker.read(event.plane, event.tenant, event.obj)
        if pod is None:
            pod = pods[read.uid] = read
        elif is_same(pod, read):
            pod.plane, pod.started = read.plane, read.started
            self._tracker.release(read)
        else:
            self._change(pod, read)
        self._settle(pod, placement, self._is_ours(event.obj, placement))

    def _is_ours(self, obj: Object, placement: PodPlacement) -> bool:
        """Whether the pod wants a place, and from us."""
        if placement.is_gated or placement.is_leaving:
            return False
        return (obj["spec"].get("schedulerName") or "default-scheduler") in self._profiles

    def _settle(self, pod: SchedulerPod, placement: PodPlacement, is_ours: bool) -> None:
        """The pod stands as the object tells."""
        if placement.node:
            self._stand_on(pod, placement.node)
            if placement.is_leaving:
                self._cache.mark_leaving(pod)
        elif pod.state is PodState.IGNORED and is_ours:
            pod.state = PodState.PENDING
            if placement.nominated and self._cache.nodes.slot(placement.nominated) is not None:
                self._cache.nominate(pod, placement.nominated)
            self._queue.add(pod)
        elif not is_ours and pod.state in (PodState.IGNORED, PodState.PENDING):
            self.forget(pod)

    def _stand_on(self, pod: SchedulerPod, node: str) -> None:
        if pod.state is PodState.PLACED and pod.node == node:
            return
        before = pod.node
        old_slot = pod.slot
        self._queue.remove(pod)
        self._cache.denominate(pod)
        self._ledger.place(pod, node)
        self.preemption.note_placed(pod)
        if before != node:
            self._waking.room(old_slot)
            self._waking.pod_placed(pod)

    def _change(self, pod: SchedulerPod, read: SchedulerPod) -> None:
        """The pod is the same, but scheduling sees it differently now."""
        is_relabeled = pod.group is not read.group
        if pod.node:
            self.preemption.note_gone(pod)
            node, slot = pod.node, pod.slot
            self._ledger.swap(pod, lambda: self._tracker.adopt(pod, read))
            assert pod.node == node
            if pod.state is PodState.PLACED:
                self.preemption.note_placed(pod)
            self._waking.room(slot)
            if is_relabeled:
                self._waking.relabeled(pod.tenant)
            return
        nominated, was_queued = pod.nominated, bool(pod.queued)
        self._queue.remove(pod)
        self._cache.denominate(pod)
        self._tracker.adopt(pod, read)
        pod.reported_reason = ""
        if nominated:
            self._cache.nominate(pod, nominated)
        if was_queued:
            self._queue.add(pod)

    def forget(self, pod: SchedulerPod) -> None:
        """The pod is gone, or no concern of ours any more."""
        self._queue.remove(pod)
        self._cache.denominate(pod)
        self.let_go(pod)
        del self._tracker.pods[pod.tenant][pod.uid]
        self._tracker.release(pod)
        if self._ended:
            self._forget_ended()

    def let_go(self, pod: SchedulerPod) -> None:
        """The pod holds nothing any more; others may find room."""
        slot, had_place = pod.slot, bool(pod.node)
        self.preemption.note_gone(pod)
        self._ledger.release(pod)
        if had_place:
            self._waking.pod_gone(pod, slot)
