"""What dedicated planes may have on nodes, as noted in ring0 (`escrow` writes the notes), and how much of it counts.

Of a plane whose pods are not known, what is noted counts in their place. Once they are known, only they
count. Notes are kept by the node's name and not with the node: a node that is made anew finds what may
still be bound to it counted.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

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
        """Node's name → plane → the most that its pods may have there, whether the node is there or not."""
        self._counted: dict[str, list[Demand]] = {}
        """Node → what is counted now."""

    def is_known(self, plane: PlaneId) -> bool:
        return plane in self._known

    def of(self, plane: PlaneId, node: str) -> Amounts:
        return dict(self.held.get(node, _NOTHING).get(plane, {}))

    def put(self, node: str, held: Held | None) -> None:
        """The node's note says this now; None: there is none any more."""
        if held is None:
            self.held.pop(node, None)
        else:
            self.held[node] = held
        slot = self._nodes.slot(node)
        if slot is not None:
            self.count(node, slot)

    def count(self, node: str, slot: int) -> None:
        """The node is there, or its note changed."""
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
        """All of the plane's pods are known, and none comes but by us. Returns slots with more room now."""
        self._known.add(plane)
        return self._recount(plane)

    def forget_plane(self, plane: PlaneId) -> None:
        """Its pods are unknown from now on."""
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
    """What a ConfigMap of the escrow says. What makes no sense notes nothing."""
    found: dict[PlaneId, Amounts] = {}
    for plane, text in (obj.get("data") or {}).items():
        try:
            found[PlaneId(plane)] = msgspec.json.decode(text, type=dict[str, int])
        except msgspec.DecodeError:
            continue
    return found
