"""The observer: processes events of planes, and updates cache, ledger and queue.

Events may be late, repeated, or older than a decision: an object without a node does not unbind an assumed
pod. Events of a plane are accepted only for the tenants it serves.
"""

from __future__ import annotations

from collections.abc import Callable

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object, labels, name
from alcove.client.keys import HOME
from alcove.scheduler import guaranteed_minimums, storage
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
        self._profiles = profiles
        self._budgets: dict[TenantId, dict[tuple[str, str], DisruptionBudget]] = {}
        self._victims: dict[TenantId, tuple[TenantId, ...]] = {}
        self._deleted_tenants: set[TenantId] = set()
        """Deleted tenants that still have state here."""
        self.preemption = Preemption(cache, evaluator, self.budgets, self.victims)
        self._handlers: dict[ObjectKind, Callable[[SchedulerEvent], None]] = {
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
        if event.is_gone and event.kind not in _RING0S and not self._has_state(event.tenant):
            return
        self._handlers[event.kind](event)

    def _has_state(self, tenant: TenantId) -> bool:
        """Whether the tenant has any state here: deletions of a deleted tenant's objects may arrive late."""
        cache = self._cache
        caches = (self._tracker.pods, cache.affinity_indexes, cache.storages, cache.handlers, self._budgets)
        return any(tenant in state for state in caches)

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
        desired: Object = {} if event.is_gone else event.obj
        account = self._fairness.account(tenant)
        limits = guaranteed_minimums.read_limits(desired)
        if limits != account.limits:
            self._fairness.set_limits(account, limits)
            self._waking.quota(None)
        self._victims[tenant] = guaranteed_minimums.read_victims(desired)
        if event.is_gone:
            self._deleted_tenants.add(tenant)
            self._forget_if_deleted(tenant)
        else:
            self._deleted_tenants.discard(tenant)

    def _forget_if_deleted(self, tenant: TenantId) -> None:
        """Forgets a deleted tenant whose last pod is deleted too."""
        if tenant in self._deleted_tenants and not self._tracker.pods.get(tenant):
            self._deleted_tenants.remove(tenant)
            self._victims.pop(tenant, None)
            self._budgets.pop(tenant, None)
            self._tracker.forget(tenant)
            self._queue.forget(tenant)
            self._fairness.forget(tenant)
            self._cache.forget(tenant)

    def _namespace(self, event: SchedulerEvent) -> None:
        desired = None if event.is_gone else dict(labels(event.obj))
        self._cache.affinity_index(event.tenant).set_namespace(name(event.obj), desired)
        self._waking.relabeled(event.tenant)

    def _runtime_class(self, event: SchedulerEvent) -> None:
        handlers = self._cache.handlers.setdefault(event.tenant, {})
        if event.is_gone:
            handlers.pop(name(event.obj), None)
        else:
            handlers[name(event.obj)] = event.obj.get("handler") or ""
        self._waking.runtime_classes(event.tenant)

    def _budget(self, event: SchedulerEvent) -> None:
        budgets = self._budgets.setdefault(event.tenant, {})
        key = (event.obj["metadata"].get("namespace", ""), name(event.obj))
        if event.is_gone:
            budgets.pop(key, None)
        else:
            budgets[key] = read_budget(event.tenant, event.obj)

    def _claim(self, event: SchedulerEvent) -> None:
        tenant_storage = self._cache.storage(event.tenant)
        claim = storage.read_claim(event.obj)
        if event.is_gone:
            tenant_storage.claims.pop(claim.key, None)
        else:
            tenant_storage.claims[claim.key] = claim
        self._waking.storage(event.tenant)

    def _volume(self, event: SchedulerEvent) -> None:
        tenant_storage = self._cache.storage(event.tenant)
        volume = storage.read_volume(event.obj)
        if event.is_gone:
            tenant_storage.volumes.pop(volume.name, None)
        else:
            tenant_storage.volumes[volume.name] = volume
        self._waking.storage(event.tenant)

    def _storage_class(self, event: SchedulerEvent) -> None:
        tenant_storage = self._cache.storage(event.tenant)
        if event.is_gone:
            tenant_storage.classes.pop(name(event.obj), None)
        else:
            tenant_storage.classes[name(event.obj)] = storage.read_class(event.obj)
        self._waking.storage(event.tenant)

    def _pod(self, event: SchedulerEvent) -> None:
        pods = self._tracker.pods.setdefault(event.tenant, {})
        pod = pods.get(event.obj["metadata"]["uid"])
        placement = read_placement(event.obj)
        if event.is_gone or placement.is_finished:
            # Ignore deletions on a plane that the tenant has moved away from: its pods moved too.
            if pod is not None and pod.plane == event.plane:
                self.forget(pod)
            return
        if pod is None and not placement.node and not self._is_ours(event.obj, placement):
            return
        read = self._tracker.read(event.plane, event.tenant, event.obj)
        if self._is_forged(read, pod, placement.node):
            self._tracker.release(read)
            if pod is not None and pod.node != placement.node:
                self.forget(pod)
            return
        if pod is None:
            pod = pods[read.uid] = read
        elif is_same(pod, read):
            pod.plane, pod.started = read.plane, read.started
            self._tracker.release(read)
        else:
            self._change(pod, read)
        self._apply(pod, placement, self._is_ours(event.obj, placement))

    def _is_forged(self, read: SchedulerPod, pod: SchedulerPod | None, node: str) -> bool:
        """Whether a dedicated plane says that a pod is on a node, or requests more there, without this: ring0 has
        recorded the resources for the plane, as it does before a pod is bound. Agents do not run such a pod."""
        if read.plane == HOME or not node:
            return False
        requested = read.shape.requests.amounts
        before = pod.shape.requests.amounts if pod is not None and pod.node == node else {}
        more = {name: amount for name, amount in requested.items() if amount > before.get(name, 0)}
        if not more:
            return False
        used = self._cache.used_by(read.plane, node)
        needed = {name: used.get(name, 0) - before.get(name, 0) + amount for name, amount in more.items()}
        return not self._cache.notes.covers(read.plane, node, needed)

    def _is_ours(self, obj: Object, placement: PodPlacement) -> bool:
        """Whether the pod is to be scheduled by this scheduler."""
        if placement.is_gated or placement.is_leaving:
            return False
        return (obj["spec"].get("schedulerName") or "default-scheduler") in self._profiles

    def _apply(self, pod: SchedulerPod, placement: PodPlacement, is_ours: bool) -> None:
        """Applies the object's node and state to the pod."""
        if placement.node:
            self._set_node(pod, placement.node)
            if placement.is_leaving:
                self._cache.mark_leaving(pod)
        elif pod.state is PodState.IGNORED and is_ours:
            pod.state = PodState.PENDING
            # Another plane's server may write any name; this scheduler knows its own nominations.
            nominated = placement.nominated if pod.plane == HOME else ""
            if nominated and self._cache.nodes.slot(nominated) is not None:
                self._cache.nominate(pod, nominated)
            self._queue.add(pod)
        elif not is_ours and pod.state in (PodState.IGNORED, PodState.PENDING):
            self.forget(pod)

    def _set_node(self, pod: SchedulerPod, node: str) -> None:
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
        """Replaces the pod's scheduling-relevant state."""
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
        """Forgets a pod that was deleted, or is not scheduled by this scheduler any more."""
        self._queue.remove(pod)
        self._cache.denominate(pod)
        self.let_go(pod)
        del self._tracker.pods[pod.tenant][pod.uid]
        self._tracker.release(pod)
        self._forget_if_deleted(pod.tenant)

    def let_go(self, pod: SchedulerPod) -> None:
        """Releases what the pod holds, and requeues pods that may fit now."""
        slot, had_place = pod.slot, bool(pod.node)
        self.preemption.note_gone(pod)
        self._ledger.release(pod)
        if had_place:
            self._waking.pod_gone(pod, slot)
