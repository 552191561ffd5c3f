"""Escrow records of dedicated planes (written by `escrow`), and how much of them is counted on nodes.

Until a plane is synced, its records are counted in place of its pods; afterwards only its pods are. Records
are kept by the node's name: a node that is created again still has what may be bound to it counted.
"""

from __future__ import annotations

from collections.abc import Mapping

from alcove.api import escrow
from alcove.api.objects import Object
from alcove.client.keys import HOME, PlaneId
from alcove.scheduler.resource_amounts import CPU, MEMORY, Amounts
from alcove.scheduler.snapshot import Demand, NodeSnapshot

Held = Mapping[PlaneId, Amounts]
_NOTHING: Held = {}


class PlaneNotes:
    def __init__(self, nodes: NodeSnapshot) -> None:
        self._nodes = nodes
        self._known = {HOME}
        self.held: dict[str, Held] = {}
        """Node name → plane → maximum that its pods may use there, whether the node exists or not."""
        self.written: dict[tuple[str, PlaneId], Amounts] = {}
        """Records that this process has written but not observed yet, by node and plane; empty amounts if the outcome of
        the write is unknown."""
        self._counted: dict[str, list[Demand]] = {}
        """Node name → demands that are counted now."""

    def is_known(self, plane: PlaneId) -> bool:
        return plane in self._known

    def of(self, plane: PlaneId, node: str) -> Amounts:
        return dict(self.held.get(node, _NOTHING).get(plane, {}))

    def covers(self, plane: PlaneId, node: str, used: Amounts) -> bool:
        """Whether ring0 has recorded as much for the plane's pods on the node."""
        observed = self.held.get(node, _NOTHING).get(plane, {})
        written = self.written.get((node, plane), {})
        return all(
            amount <= max(observed.get(name, 0), written.get(name, 0)) for name, amount in used.items()
        )

    def put(self, node: str, held: Held | None) -> None:
        """Sets the node's record. None if it was deleted."""
        if held is None:
            self.held.pop(node, None)
        else:
            self.held[node] = held
        slot = self._nodes.slot(node)
        if slot is not None:
            self.count(node, slot)

    def count(self, node: str, slot: int) -> None:
        """Counts the records of planes that are not synced on the node. Call it when the node or its record
        changed."""
        self.uncount(node, slot)
        unknown = [
            amounts for plane, amounts in self.held.get(node, _NOTHING).items() if plane not in self._known
        ]
        if unknown:
            counted = self._counted[node] = [self._demand(amounts) for amounts in unknown]
            for demand in counted:
                self._nodes.take(slot, demand)

    def uncount(self, node: str, slot: int) -> None:
        for demand in self._counted.pop(node, ()):
            self._nodes.take(slot, demand, -1)

    def know_plane(self, plane: PlaneId) -> list[int]:
        """The plane is synced and fenced: its pods are counted instead. Returns the slots that have more free
        resources."""
        self._known.add(plane)
        return self._recount(plane)

    def forget_plane(self, plane: PlaneId) -> None:
        """The plane's records are counted again."""
        self._known.discard(plane)
        self._recount(plane)

    def _recount(self, plane: PlaneId) -> list[int]:
        slots = []
        for node, held in self.held.items():
            slot = self._nodes.slot(node)
            if slot is not None and plane in held:
                self.count(node, slot)
                slots.append(slot)
        return slots

    def _demand(self, amounts: Amounts) -> Demand:
        rows = self._nodes.rows
        counted = tuple((rows[name], amount) for name, amount in amounts.items() if name in rows)
        return Demand(counted, amounts.get(CPU, 0), amounts.get(MEMORY, 0))


def read_note(obj: Object) -> Held:
    """The amounts by plane in an escrow ConfigMap. Invalid entries are ignored."""
    amounts_by_plane: dict[PlaneId, Amounts] = {}
    for plane, text in (obj.get("data") or {}).items():
        if amounts := escrow.amounts_of(text):
            amounts_by_plane[PlaneId(plane)] = amounts
    return amounts_by_plane
