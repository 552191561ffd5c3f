"""All nodes as arrays: allocatable and requested resources, labels, taints, images. Decisions are based on
it.

A node has a slot, an index into every array; slots of removed nodes are reused. Changes are incremental and
recorded in two journals, of node properties (`changed`) and of usage (`used`), so that cached results are
updated for just those slots.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct

from alcove.scheduler.arrays import Bools, Ints
from alcove.scheduler.hostports import HostPort, HostPorts
from alcove.scheduler.label_columns import Columns
from alcove.scheduler.nodes import NodeFacts
from alcove.scheduler.resource_amounts import CPU, MEMORY, PODS, STORAGE
from alcove.scheduler.taints import TaintSets
from alcove.scheduler.variants import Variants

JOURNAL_MAX = 1 << 16


class Journal:
    """A journal of changed slots, so that cached results are updated incrementally.

    Readers remember a position and get the changes since; a reader that is too far behind gets None and
    recomputes.
    """

    __slots__ = ("_base", "_slots")

    def __init__(self) -> None:
        self._slots: list[int] = []
        self._base = 0

    @property
    def position(self) -> int:
        return self._base + len(self._slots)

    def note(self, slot: int) -> None:
        self._slots.append(slot)
        if len(self._slots) > JOURNAL_MAX:
            dropped = JOURNAL_MAX // 2
            del self._slots[:dropped]
            self._base += dropped

    def since(self, position: int) -> list[int] | None:
        """Slots that changed after `position`, possibly repeated. None if the position is no longer kept."""
        if position < self._base:
            return None
        return self._slots[position - self._base :]


CPU_ROW, MEMORY_ROW, STORAGE_ROW, PODS_ROW = range(4)
SLOTS_MIN = 64
NONE = NodeFacts("")


class Demand(Struct, frozen=True):
    """A pod's requests as array rows."""

    amounts: tuple[tuple[int, int], ...]
    """(row, amount)"""
    shown_cpu: int
    shown_memory: int
    ports: tuple[HostPort, ...] = ()


class NodeSnapshot:
    def __init__(self) -> None:
        self.size = 0
        """Number of slots, used or not."""
        self.count = 0
        """Number of nodes."""
        self.rows = {CPU: CPU_ROW, MEMORY: MEMORY_ROW, STORAGE: STORAGE_ROW, PODS: PODS_ROW}
        """Row of each resource that a node has or had, in `allocatable` and `requested`."""
        self.allocatable: Ints = np.zeros((4, 0), dtype=np.int64)
        self.requested: Ints = np.zeros((4, 0), dtype=np.int64)
        self.shown: Ints = np.zeros((2, 0), dtype=np.int64)
        """Requested CPU and memory for scores: containers without requests count a default amount."""
        self.is_alive: Bools = np.zeros(0, dtype=np.bool_)
        self.is_unschedulable: Bools = np.zeros(0, dtype=np.bool_)
        self.labels = Columns()
        self.taints = TaintSets()
        self.handlers: Variants[frozenset[str]] = Variants(frozenset())
        """Runtime handlers of each node."""
        self.images: dict[str, dict[int, int]] = {}
        """Image → slots that have it → bytes."""
        self.ports = HostPorts()
        self.changed = Journal()
        self.used = Journal()
        self.slots: dict[str, int] = {}
        self.facts: list[NodeFacts] = []
        self._free: list[int] = []

    def slot(self, name: str) -> int | None:
        return self.slots.get(name)

    def name(self, slot: int) -> str:
        return self.facts[slot].name

    def capacity(self, resource: str) -> int:
        """Total allocatable amount of all nodes."""
        row = self.rows.get(resource)
        return 0 if row is None else int(self.allocatable[row].sum())

    def put(self, facts: NodeFacts) -> tuple[str, ...]:
        """Adds or changes a node. Returns the resources that no node had before: existing pods' requests of
        them must be counted now."""
        slot = self.slots.get(facts.name)
        if slot is None:
            slot = self._take_slot(facts.name)
        new_resources = self._write(slot, facts)
        self.is_alive[slot] = True
        return new_resources

    def remove(self, name: str) -> None:
        """Removes a node. Its pods must have been removed before."""
        slot = self.slots.pop(name)
        self._write(slot, NONE)
        self.is_alive[slot] = False
        self.count -= 1
        self._free.append(slot)

    def _take_slot(self, name: str) -> int:
        if not self._free:
            self._grow()
        slot = self._free.pop()
        self.slots[name] = slot
        self.count += 1
        return slot

    def _grow(self) -> None:
        """Grows by an eighth, so that arrays are little longer than needed."""
        old, self.size = self.size, self.size + max(SLOTS_MIN, self.size // 8)
        more = self.size - old
        self.allocatable = np.pad(self.allocatable, ((0, 0), (0, more)))
        self.requested = np.pad(self.requested, ((0, 0), (0, more)))
        self.shown = np.pad(self.shown, ((0, 0), (0, more)))
        self.is_alive = np.pad(self.is_alive, (0, more))
        self.is_unschedulable = np.pad(self.is_unschedulable, (0, more))
        self.labels.grow(self.size)
        self.taints.grow(self.size)
        self.handlers.grow(self.size)
        self.facts += [NONE] * more
        self._free += range(self.size - 1, old - 1, -1)

    def _write(self, slot: int, facts: NodeFacts) -> tuple[str, ...]:
        old = self.facts[slot]
        new_resources = tuple(resource for resource in facts.allocatable if resource not in self.rows)
        for resource in new_resources:
            self._add_row(resource)
        self.allocatable[:, slot] = 0
        for resource, amount in facts.allocatable.items():
            self.allocatable[self.rows[resource], slot] = amount
        self.labels.replace(slot, old.labels, facts.labels)
        self.taints.put(slot, facts.taints)
        self.is_unschedulable[slot] = facts.is_unschedulable
        self.handlers.put(slot, facts.handlers)
        if old.images != facts.images:
            self._replace_images(slot, old.images, facts.images)
        self.facts[slot] = facts
        self.changed.note(slot)
        self.used.note(slot)
        return new_resources

    def _add_row(self, resource: str) -> None:
        self.rows[resource] = len(self.rows)
        self.allocatable = np.pad(self.allocatable, ((0, 1), (0, 0)))
        self.requested = np.pad(self.requested, ((0, 1), (0, 0)))

    def _replace_images(self, slot: int, old: Iterable[str], new: Mapping[str, int]) -> None:
        for name in old:
            nodes = self.images[name]
            del nodes[slot]
            if not nodes:
                del self.images[name]
        for name, size in new.items():
            self.images.setdefault(name, {})[slot] = size

    def take(self, slot: int, demand: Demand, sign: int = 1) -> None:
        """Adds a demand to the node's usage (or, with -1, subtracts it)."""
        requested = self.requested
        for row, amount in demand.amounts:
            requested[row, slot] += sign * amount
        self.shown[0, slot] += sign * demand.shown_cpu
        self.shown[1, slot] += sign * demand.shown_memory
        if demand.ports:
            (self.ports.take if sign > 0 else self.ports.give_back)(slot, demand.ports)
        self.used.note(slot)
