"""How much counts of what nodes note of dedicated planes (`escrow` writes the notes).

    UNKNOWN ── its pods are listed ──▶ LISTED ── nothing of an earlier scheduler is under way ──▶ SETTLED

Of a plane whose pods are unknown, the note counts in their place. Once they are listed they count
themselves, and so does what the note has beyond them: a binding that an earlier scheduler sent may still
come true. Of a settled plane only pods count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from alcove.client.keys import HOME, PlaneId
from alcove.scheduler.amounts import CPU, MEMORY, Amounts
from alcove.scheduler.nodes import NodeFacts
from alcove.scheduler.snapshot import Demand, Snapshot

UsedBy = Callable[[PlaneId, str], Amounts]
"""What the known pods of a plane take on a node."""
_NOTHING: Amounts = {}


class Notes:
    def __init__(self, nodes: Snapshot, used_by: UsedBy) -> None:
        self._nodes = nodes
        self._used_by = used_by
        # The home plane itself refuses what an earlier scheduler sends: it is settled from the start.
        self._settled = {HOME}
        self._beyond: dict[PlaneId, dict[str, Amounts]] = {}
        """Listed plane → node → what the node noted beyond the pods, when the plane was listed."""
        self._counted: dict[str, dict[PlaneId, Demand]] = {}
        """Node → plane → what is counted for it now."""

    def is_settled(self, plane: PlaneId) -> bool:
        return plane in self._settled

    def beyond(self, plane: PlaneId, node: str) -> Amounts:
        """What an earlier scheduler may still have given the plane's pods on the node."""
        return self._beyond.get(plane, {}).get(node, _NOTHING)

    def count(self, facts: NodeFacts, slot: int) -> None:
        """The node is there, with these notes."""
        self.uncount(facts.name, slot)
        for name, held in facts.held.items():
            plane = PlaneId(name)
            amounts = self._counting(plane, facts.name, held)
            if amounts:
                demand = self._counted.setdefault(facts.name, {})[plane] = self._demand(amounts)
                self._nodes.take(slot, demand)

    def uncount(self, node: str, slot: int) -> None:
        """The node goes, or its notes change."""
        for demand in self._counted.pop(node, {}).values():
            self._nodes.take(slot, demand, -1)

    def list_plane(self, plane: PlaneId) -> list[int]:
        """All of the plane's pods are known. Returns slots on which less may be taken from now on."""
        if plane in self._settled:
            return []
        nodes = self._nodes
        self._beyond[plane] = {
            name: _less(nodes.facts[slot].held.get(plane, _NOTHING), self._used_by(plane, name))
            for name, slot in nodes.slots.items()
        }
        return self._recount(plane)

    def settle_plane(self, plane: PlaneId) -> list[int]:
        """Nothing that an earlier scheduler sent can come true any more. Returns slots, as above."""
        self._settled.add(plane)
        self._beyond.pop(plane, None)
        return self._recount(plane)

    def forget_plane(self, plane: PlaneId) -> None:
        """Its pods are unknown from now on."""
        self._settled.discard(plane)
        self._beyond.pop(plane, None)
        for name, slot in self._nodes.slots.items():
            if plane in self._nodes.facts[slot].held:
                self.count(self._nodes.facts[slot], self._nodes.slots[name])

    def _recount(self, plane: PlaneId) -> list[int]:
        slots = [self._nodes.slots[node] for node, planes in self._counted.items() if plane in planes]
        for slot in slots:
            self.count(self._nodes.facts[slot], slot)
        return slots

    def _counting(self, plane: PlaneId, node: str, held: Mapping[str, int]) -> Mapping[str, int]:
        if plane in self._settled:
            return _NOTHING
        beyond = self._beyond.get(plane)
        if beyond is None:
            return held
        if node not in beyond:
            # It was not there when the plane was listed.
            beyond[node] = _less(held, self._used_by(plane, node))
        return beyond[node]

    def _demand(self, amounts: Mapping[str, int]) -> Demand:
        rows = self._nodes.rows
        counted = tuple((rows[name], amount) for name, amount in amounts.items() if name in rows)
        return Demand(counted, amounts.get(CPU, 0), amounts.get(MEMORY, 0))


def _less(amounts: Mapping[str, int], used: Mapping[str, int]) -> Amounts:
    return {name: more for name, amount in amounts.items() if (more := amount - used.get(name, 0)) > 0}
