"""The scheduler cache: all state that filters and scores read: nodes, the pods on them, and each tenant's
affinity index and storage.

It keeps its parts consistent and decides nothing. Pods are also kept by their node's name, so that a node
that is created again has its pods counted.
"""

from __future__ import annotations

from alcove.api.ids import TenantId
from alcove.client.keys import HOME, PlaneId
from alcove.scheduler.affinity_index import AffinityIndex
from alcove.scheduler.nodes import NodeFacts
from alcove.scheduler.notes import PlaneNotes
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.resource_amounts import Amounts
from alcove.scheduler.shapes import PodShape
from alcove.scheduler.snapshot import Demand, NodeSnapshot
from alcove.scheduler.storage import TenantStorage
from alcove.scheduler.volumesources import DisksInUse

NOWHERE = -1


class SchedulerCache:
    def __init__(self) -> None:
        self.nodes = NodeSnapshot()
        self.on_node: dict[str, dict[SchedulerPod, None]] = {}
        """Node name → pods with resources there, whether the node exists or not."""
        self.nominated: dict[str, dict[SchedulerPod, None]] = {}
        """Node name → pods nominated for it."""
        self.nominated_of: dict[TenantId, dict[SchedulerPod, None]] = {}
        """Tenant → its nominated pods."""
        self.affinity_indexes: dict[TenantId, AffinityIndex] = {}
        self.storages: dict[TenantId, TenantStorage] = {}
        self.handlers: dict[TenantId, dict[str, str]] = {}
        """Tenant → RuntimeClass → its handler."""
        self.disks = DisksInUse()
        self.notes = PlaneNotes(self.nodes)

    def affinity_index(self, tenant: TenantId) -> AffinityIndex:
        found = self.affinity_indexes.get(tenant)
        if found is None:
            found = self.affinity_indexes[tenant] = AffinityIndex()
        return found

    def storage(self, tenant: TenantId) -> TenantStorage:
        found = self.storages.get(tenant)
        if found is None:
            found = self.storages[tenant] = TenantStorage()
        return found

    def forget(self, tenant: TenantId) -> None:
        """Forgets a deleted tenant that has no pods."""
        self.affinity_indexes.pop(tenant, None)
        self.storages.pop(tenant, None)
        self.handlers.pop(tenant, None)

    def demand(self, shape: PodShape) -> Demand:
        """Requests of the shape as array rows. Resources that no node has are not counted."""
        rows = self.nodes.rows
        if shape.demand is None or shape.demand_rows != len(rows):
            requests = shape.requests
            amounts = tuple((rows[name], amount) for name, amount in requests.amounts.items() if name in rows)
            shape.demand = Demand(amounts, requests.shown_cpu, requests.shown_memory, shape.ports)
            shape.demand_rows = len(rows)
        return shape.demand

    def put_node(self, facts: NodeFacts) -> int:
        """Adds or changes a node, and counts the pods on it."""
        is_new = facts.name not in self.nodes.slots
        new_resources = self.nodes.put(facts)
        if new_resources:
            self._count_resources(new_resources)
        slot = self.nodes.slots[facts.name]
        self.notes.count(facts.name, slot)
        if is_new:
            for pod in self.on_node.get(facts.name, {}):
                self._count(pod, slot)
            for pod in self.nominated.get(facts.name, {}):
                self._count_nominated(pod, slot, 1)
        return slot

    def _count_resources(self, new_resources: tuple[str, ...]) -> None:
        """Counts existing pods' requests of resources that no node had before."""
        for pods in (*self.on_node.values(), *self.nominated.values()):
            for pod in pods:
                slot = self.nodes.slot(pod.node or pod.nominated)
                if slot is None:
                    continue
                for name in new_resources:
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
        """Total requests of the plane's pods on the node, including assumed ones."""
        total: Amounts = {}
        for pod in self.on_node.get(node, ()):
            if pod.plane == plane:
                for name, amount in pod.shape.requests.amounts.items():
                    total[name] = total.get(name, 0) + amount
        return total

    def planes_on(self, node: str) -> set[PlaneId]:
        """The dedicated planes that have pods on the node."""
        return {pod.plane for pod in self.on_node.get(node, ())} - {HOME}

    def place(self, pod: SchedulerPod, node: str) -> None:
        """Counts the pod's requests on the node, which need not exist yet."""
        pod.node = node
        self.on_node.setdefault(node, {})[pod] = None
        slot = self.nodes.slot(node)
        if slot is not None:
            self._count(pod, slot)

    def lift(self, pod: SchedulerPod) -> None:
        """Removes the pod from its node."""
        pods = self.on_node[pod.node]
        del pods[pod]
        if not pods:
            del self.on_node[pod.node]
        if pod.slot != NOWHERE:
            self._uncount(pod)
        pod.node = ""

    def nominate(self, pod: SchedulerPod, node: str) -> None:
        """Reserves the pod's requests on the node."""
        pod.nominated = node
        self.nominated.setdefault(node, {})[pod] = None
        self.nominated_of.setdefault(pod.tenant, {})[pod] = None
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
        of_tenant = self.nominated_of[pod.tenant]
        del of_tenant[pod]
        if not of_tenant:
            del self.nominated_of[pod.tenant]
        slot = self.nodes.slot(pod.nominated)
        if slot is not None:
            self._count_nominated(pod, slot, -1)
        pod.nominated = ""

    def mark_leaving(self, pod: SchedulerPod) -> None:
        """The pod is being deleted. It holds its resources until then."""
        if not pod.is_leaving:
            pod.is_leaving = True
            if pod.slot != NOWHERE:
                self.affinity_index(pod.tenant).mark_leaving(pod.group, pod.slot, 1)

    def _count(self, pod: SchedulerPod, slot: int) -> None:
        pod.slot = slot
        self._add(pod, slot, 1)

    def _uncount(self, pod: SchedulerPod) -> None:
        slot, pod.slot = pod.slot, NOWHERE
        self._add(pod, slot, -1)

    def _add(self, pod: SchedulerPod, slot: int, sign: int) -> None:
        shape = pod.shape
        self.nodes.take(slot, self.demand(shape), sign)
        self.affinity_index(pod.tenant).place(pod, slot, sign)
        if shape.disks:
            self.disks.use(slot, shape.disks, sign)
        for claim in shape.claims:
            self.storage(pod.tenant).users[(pod.namespace, claim.name)] += sign

    def _count_nominated(self, pod: SchedulerPod, slot: int, sign: int) -> None:
        self.nodes.take(slot, self.demand(pod.shape), sign)
        self.affinity_index(pod.tenant).nominate(pod, slot, sign)
