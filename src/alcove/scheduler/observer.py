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
from alcove.scheduler.budgets import Budget, read_budget
from alcove.scheduler.events import Event, Kind
from alcove.scheduler.fairness import Fairness
from alcove.scheduler.judge import Judge
from alcove.scheduler.ledger import Ledger
from alcove.scheduler.nodes import read_node
from alcove.scheduler.notes import read_note
from alcove.scheduler.pods import Pod, State
from alcove.scheduler.preemption import Preemption
from alcove.scheduler.profiles import Profiles
from alcove.scheduler.queue import Queue
from alcove.scheduler.roster import Roster, Told, is_same, read_told
from alcove.scheduler.waking import Waking
from alcove.scheduler.world import World

_RING0S = (Kind.NODE, Kind.TENANT, Kind.NOTE)


class Observer:
    def __init__(
        self,
        world: World,
        roster: Roster,
        fairness: Fairness,
        queue: Queue,
        ledger: Ledger,
        waking: Waking,
        judge: Judge,
        profiles: Profiles,
    ) -> None:
        self._world = world
        self._roster = roster
        self._fairness = fairness
        self._queue = queue
        self._ledger = ledger
        self._waking = waking
        self._judge = judge
        self._profiles = profiles
        self._budgets: dict[TenantId, dict[tuple[str, str], Budget]] = {}
        self._victims: dict[TenantId, tuple[TenantId, ...]] = {}
        self._ended: set[TenantId] = set()
        """Tenants that are gone, of whom something is still known."""
        self.preemption = Preemption(world, judge, self.budgets, self.victims)
        self._takers: dict[Kind, Callable[[Event], None]] = {
            Kind.POD: self._pod,
            Kind.NODE: self._node,
            Kind.CLAIM: self._claim,
            Kind.VOLUME: self._volume,
            Kind.STORAGE_CLASS: self._storage_class,
            Kind.BUDGET: self._budget,
            Kind.NAMESPACE: self._namespace,
            Kind.RUNTIME_CLASS: self._runtime_class,
            Kind.TENANT: self._tenant,
            Kind.NOTE: self._note,
        }

    def take(self, event: Event) -> None:
        if event.is_gone and event.kind not in _RING0S and not self._knows(event.tenant):
            return
        self._takers[event.kind](event)

    def _knows(self, tenant: TenantId) -> bool:
        """Whether anything of the tenant's is known: of one that is gone, the last news may come late."""
        world = self._world
        places = (self._roster.pods, world.books, world.storages, world.handlers, self._budgets)
        return any(tenant in place for place in places)

    def budgets(self, tenant: TenantId) -> list[Budget]:
        return list(self._budgets.get(tenant, {}).values())

    def victims(self, tenant: TenantId) -> tuple[TenantId, ...]:
        return self._victims.get(tenant, ())

    def _node(self, event: Event) -> None:
        if event.tenant != SYSTEM or event.plane != HOME:
            return
        nodes = self._world.nodes
        node = name(event.obj)
        slot = nodes.slot(node)
        if event.is_gone:
            if slot is not None:
                self._world.remove_node(node)
                self._set_capacity()
                self._waking.node_removed()
            return
        facts = read_node(event.obj)
        old = None if slot is None else nodes.facts[slot]
        if facts == old:
            return
        self._world.put_node(facts)
        if old is None or old.allocatable != facts.allocatable:
            self._set_capacity()
        self._waking.node_changed(old, facts)

    def _note(self, event: Event) -> None:
        if event.tenant != SYSTEM or event.plane != HOME:
            return
        node = name(event.obj)
        self._world.notes.put(node, None if event.is_gone else read_note(event.obj))
        slot = self._world.nodes.slot(node)
        if slot is not None:
            self._waking.room(slot)

    def _set_capacity(self) -> None:
        nodes = self._world.nodes
        self._fairness.set_capacity({resource: nodes.capacity(resource) for resource in nodes.rows})

    def _tenant(self, event: Event) -> None:
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
        for tenant in [each for each in self._ended if not self._roster.pods.get(each)]:
            self._ended.remove(tenant)
            self._victims.pop(tenant, None)
            self._budgets.pop(tenant, None)
            self._roster.forget(tenant)
            self._queue.forget(tenant)
            self._fairness.forget(tenant)
            self._world.forget(tenant)

    def _namespace(self, event: Event) -> None:
        given = None if event.is_gone else dict(labels(event.obj))
        self._world.book(event.tenant).set_namespace(name(event.obj), given)
        self._waking.relabeled(event.tenant)

    def _runtime_class(self, event: Event) -> None:
        handlers = self._world.handlers.setdefault(event.tenant, {})
        if event.is_gone:
            handlers.pop(name(event.obj), None)
        else:
            handlers[name(event.obj)] = event.obj.get("handler") or ""
        self._judge.memos.forget_all()
        self._waking.runtime_classes(event.tenant)

    def _budget(self, event: Event) -> None:
        budgets = self._budgets.setdefault(event.tenant, {})
        key = (event.obj["metadata"].get("namespace", ""), name(event.obj))
        if event.is_gone:
            budgets.pop(key, None)
        else:
            budgets[key] = read_budget(event.tenant, event.obj)

    def _claim(self, event: Event) -> None:
        kept = self._world.storage(event.tenant)
        claim = storage.read_claim(event.obj)
        if event.is_gone:
            kept.claims.pop(claim.key, None)
        else:
            kept.claims[claim.key] = claim
        self._waking.storage(event.tenant)

    def _volume(self, event: Event) -> None:
        kept = self._world.storage(event.tenant)
        volume = storage.read_volume(event.obj)
        if event.is_gone:
            kept.volumes.pop(volume.name, None)
        else:
            kept.volumes[volume.name] = volume
        self._waking.storage(event.tenant)

    def _storage_class(self, event: Event) -> None:
        kept = self._world.storage(event.tenant)
        if event.is_gone:
            kept.classes.pop(name(event.obj), None)
        else:
            kept.classes[name(event.obj)] = storage.read_class(event.obj)
        self._waking.storage(event.tenant)

    def _pod(self, event: Event) -> None:
        pods = self._roster.pods.setdefault(event.tenant, {})
        pod = pods.get(event.obj["metadata"]["uid"])
        told = read_told(event.obj)
        if event.is_gone or told.is_finished:
            # A plane that a tenant moved away from says nothing of the pods that moved along.
            if pod is not None and pod.plane == event.plane:
                self.forget(pod)
            return
        if pod is None and not told.node and not self._is_ours(event.obj, told):
            return
        read = self._roster.read(event.plane, event.tenant, event.obj)
        if pod is None:
            pod = pods[read.uid] = read
        elif is_same(pod, read):
            pod.plane, pod.started = read.plane, read.started
            self._roster.release(read)
        else:
            self._change(pod, read)
        self._settle(pod, told, self._is_ours(event.obj, told))

    def _is_ours(self, obj: Object, told: Told) -> bool:
        """Whether the pod wants a place, and from us."""
        if told.is_gated or told.is_leaving:
            return False
        return (obj["spec"].get("schedulerName") or "default-scheduler") in self._profiles

    def _settle(self, pod: Pod, told: Told, is_ours: bool) -> None:
        """The pod stands as the object tells."""
        if told.node:
            self._stand_on(pod, told.node)
            if told.is_leaving:
                self._world.mark_leaving(pod)
        elif pod.state is State.IGNORED and is_ours:
            pod.state = State.PENDING
            if told.nominated and self._world.nodes.slot(told.nominated) is not None:
                self._world.nominate(pod, told.nominated)
            self._queue.add(pod)
        elif not is_ours and pod.state in (State.IGNORED, State.PENDING):
            self.forget(pod)

    def _stand_on(self, pod: Pod, node: str) -> None:
        if pod.state is State.PLACED and pod.node == node:
            return
        before = pod.node
        old_slot = pod.slot
        self._queue.remove(pod)
        self._world.denominate(pod)
        self._ledger.place(pod, node)
        self.preemption.note_placed(pod)
        if before != node:
            self._waking.room(old_slot)
            self._waking.pod_placed(pod)

    def _change(self, pod: Pod, read: Pod) -> None:
        """The pod is the same, but scheduling sees it differently now."""
        is_relabeled = pod.group is not read.group
        if pod.node:
            self.preemption.note_gone(pod)
            node, slot = pod.node, pod.slot
            self._ledger.swap(pod, lambda: self._roster.adopt(pod, read))
            assert pod.node == node
            if pod.state is State.PLACED:
                self.preemption.note_placed(pod)
            self._waking.room(slot)
            if is_relabeled:
                self._waking.relabeled(pod.tenant)
            return
        nominated, was_queued = pod.nominated, bool(pod.queued)
        self._queue.remove(pod)
        self._world.denominate(pod)
        self._roster.adopt(pod, read)
        pod.told = ""
        if nominated:
            self._world.nominate(pod, nominated)
        if was_queued:
            self._queue.add(pod)

    def forget(self, pod: Pod) -> None:
        """The pod is gone, or no concern of ours any more."""
        self._queue.remove(pod)
        self._world.denominate(pod)
        self.let_go(pod)
        del self._roster.pods[pod.tenant][pod.uid]
        self._roster.release(pod)
        if self._ended:
            self._forget_ended()

    def let_go(self, pod: Pod) -> None:
        """The pod holds nothing any more; others may find room."""
        slot, had_place = pod.slot, bool(pod.node)
        self.preemption.note_gone(pod)
        self._ledger.release(pod)
        if had_place:
            self._waking.pod_gone(pod, slot)
