"""All that filters and scores look at: nodes, who is on them, and each tenant's book and storage.

It is told what is so and keeps its parts consistent; it decides nothing. Pods are kept by their node's
name too, so that a node that comes back finds what still runs on it counted.
"""

from __future__ import annotations

from alcove.api.ids import TenantId
from alcove.client.keys import PlaneId
from alcove.scheduler.affinity_index import AffinityIndex
from alcove.scheduler.disks import DisksInUse
from alcove.scheduler.nodes import NodeFacts
from alcove.scheduler.notes import PlaneNotes
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.resource_amounts import Amounts
from alcove.scheduler.shapes import PodShape
from alcove.scheduler.snapshot import Demand, NodeSnapshot
from alcove.scheduler.storage import TenantStorage

NOWHERE = -1


class SchedulerCache:
    def __init__(self) -> None:
        self.nodes = NodeSnapshot()
        self.on_node: dict[str, dict[SchedulerPod, None]] = {}
        """Node's name → pods that take something there, whether the node is there or not."""
        self.nominated: dict[str, dict[SchedulerPod, None]] = {}
        """Node's name → pods that room is being made for there."""
        self.books: dict[TenantId, AffinityIndex] = {}
        self.storages: dict[TenantId, TenantStorage] = {}
        self.handlers: dict[TenantId, dict[str, str]] = {}
        """Tenant → RuntimeClass → its handler."""
        self.disks = DisksInUse()
        self.notes = PlaneNotes(self.nodes)

    def book(self, tenant: TenantId) -> AffinityIndex:
        found = self.books.get(tenant)
        if found is None:
            found = self.books[tenant] = AffinityIndex()
        return found

    def storage(self, tenant: TenantId) -> TenantStorage:
        found = self.storages.get(tenant)
        if found is None:
            found = self.storages[tenant] = TenantStorage()
        return found

    def forget(self, tenant: TenantId) -> None:
        """The tenant is gone, with all its pods."""
        self.books.pop(tenant, None)
        self.storages.pop(tenant, None)
        self.handlers.pop(tenant, None)

    def demand(self, shape: PodShape) -> Demand:
        """What a pod of this shape takes. Resources that no node has are not counted."""
        rows = self.nodes.rows
        if shape.demand is None or shape.demand_rows != len(rows):
            asked = shape.requests
            amounts = tuple((rows[name], amount) for name, amount in asked.amounts.items() if name in rows)
            shape.demand = Demand(amounts, asked.shown_cpu, asked.shown_memory, shape.ports)
            shape.demand_rows = len(rows)
        return shape.demand

    def put_node(self, facts: NodeFacts) -> int:
        """Add or change a node; pods known to be on it count from then on."""
        is_new = facts.name not in self.nodes.slots
        news = self.nodes.put(facts)
        if news:
            self._count_resources(news)
        slot = self.nodes.slots[facts.name]
        self.notes.count(facts.name, slot)
        if is_new:
            for pod in self.on_node.get(facts.name, {}):
                self._count(pod, slot)
            for pod in self.nominated.get(facts.name, {}):
                self._count_nominated(pod, slot, 1)
        return slot

    def _count_resources(self, news: tuple[str, ...]) -> None:
        """Resources are known from now on that pods may have asked for already."""
        for pods in (*self.on_node.values(), *self.nominated.values()):
            for pod in pods:
                slot = self.nodes.slot(pod.node or pod.nominated)
                if slot is None:
                    continue
                for name in news:
                    self.nodes.requested[self.nodes.rows[name], slot] += pod.shape.requests.amounts.get(
                        name, 0
                    )

    def remove_node(self, name: str) -> None:
        slot = self.nodes.slot(name)
        if slot is None:
            return
        for pod in self.on_node.get(name, {}):
            self._uncount(pod)
        for pod in self.nominated.get(name, {}):
            self._count_nominated(pod, slot, -1)
        self.notes.uncount(name, slot)
        self.nodes.remove(name)

    def used_by(self, plane: PlaneId, node: str) -> Amounts:
        """What the plane's pods take on the node, assumed ones too."""
        total: Amounts = {}
        for pod in self.on_node.get(node, ()):
            if pod.plane == plane:
                for name, amount in pod.shape.requests.amounts.items():
                    total[name] = total.get(name, 0) + amount
        return total

    def place(self, pod: SchedulerPod, node: str) -> None:
        """The pod takes what it asks for on the node, which need not be known yet."""
        pod.node = node
        self.on_node.setdefault(node, {})[pod] = None
        slot = self.nodes.slot(node)
        if slot is not None:
            self._count(pod, slot)

    def lift(self, pod: SchedulerPod) -> None:
        """The pod takes nothing any more."""
        pods = self.on_node[pod.node]
        del pods[pod]
        if not pods:
            del self.on_node[pod.node]
        if pod.slot != NOWHERE:
            self._uncount(pod)
        pod.node = ""

    def nominate(self, pod: SchedulerPod, node: str) -> None:
        """Room on the node is kept for the pod."""
        pod.nominated = node
        self.nominated.setdefault(node, {})[pod] = None
        slot = self.nodes.slot(node)
        if slot is not None:
            self._count_nominated(pod, slot, 1)

    def denominate(self, pod: SchedulerPod) -> None:
        if not pod.nominated:
            return
        pods = self.nominated[pod.nominated]
        del pods[pod]
        if not pods:
            del self.nominated[pod.nominated]
        slot = self.nodes.slot(pod.nominated)
        if slot is not None:
            self._count_nominated(pod, slot, -1)
        pod.nominated = ""

    def mark_leaving(self, pod: SchedulerPod) -> None:
        """The pod is being deleted. It keeps what it has until it is gone."""
        if not pod.is_leaving:
            pod.is_leaving = True
            if pod.slot != NOWHERE:
                self.book(pod.tenant).mark_leaving(pod.group, pod.slot, 1)

    def _count(self, pod: SchedulerPod, slot: int) -> None:
        pod.slot = slot
        self._add(pod, slot, 1)

    def _uncount(self, pod: SchedulerPod) -> None:
        slot, pod.slot = pod.slot, NOWHERE
        self._add(pod, slot, -1)

    def _add(self, pod: SchedulerPod, slot: int, sign: int) -> None:
        shape = pod.shape
        self.nodes.take(slot, self.demand(shape), sign)
        self.book(pod.tenant).place(pod, slot, sign)
        if shape.disks:
            self.disks.use(slot, shape.disks, sign)
        for claim in shape.claims:
            self.storage(pod.tenant).users[(pod.namespace, claim.name)] += sign

    def _count_nominated(self, pod: SchedulerPod, slot: int, sign: int) -> None:
        self.nodes.take(slot, self.demand(pod.shape), sign)
        self.book(pod.tenant).nominate(pod, slot, sign)
