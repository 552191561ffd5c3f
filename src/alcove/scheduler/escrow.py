"""Escrow: what dedicated planes may have on a node is noted on the node, before they get it.

The note is ring0's and survives everything else. A scheduler that starts while a plane is away does not
know that plane's pods, but it knows from the notes how much they can have, and leaves that alone until
the plane tells. Notes run a little ahead of what is used, so that most decisions need no new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import ceil

import msgspec

from alcove.api.errors import ApiError
from alcove.api.ids import SYSTEM
from alcove.client.client import Client
from alcove.client.errors import ClientError
from alcove.client.keys import HOME, PlaneId
from alcove.client.resources import NODES
from alcove.scheduler.amounts import PODS, Amounts
from alcove.scheduler.nodes import held_key
from alcove.scheduler.world import World

AHEAD_LEAST = 1 / 4
AHEAD_PODS = 2
SWEEP_SECONDS = 30.0
SWEPT_AT_ONCE = 64

Slot = tuple[str, PlaneId]


class Escrow:
    def __init__(self, world: World, home: Callable[[], Client]) -> None:
        self._world = world
        self._home = home
        self._written: dict[Slot, Amounts] = {}
        """Notes that were written and may not have been seen yet."""
        self._locks: dict[Slot, asyncio.Lock] = {}

    async def cover(self, plane: PlaneId, node: str) -> bool:
        """Make sure that the node's note covers all that the plane's pods have on it, assumed ones too."""
        if plane == HOME:
            return True
        lock = self._locks.setdefault((node, plane), asyncio.Lock())
        async with lock:
            needed = self.needed(plane, node)
            noted = self._noted(plane, node)
            is_covered = all(noted.get(name, 0) >= amount for name, amount in needed.items())
            done = is_covered or await self._write(plane, node, _ahead(needed))
        if not lock.locked():
            self._locks.pop((node, plane), None)
        return done

    def needed(self, plane: PlaneId, node: str) -> Amounts:
        """What the plane's pods have on the node, and what a scheduler before this one may yet give them."""
        total = self._world.used_by(plane, node)
        for name, amount in self._world.notes.beyond(plane, node).items():
            total[name] = total.get(name, 0) + amount
        return total

    def _noted(self, plane: PlaneId, node: str) -> Amounts:
        slot = self._world.nodes.slot(node)
        noted = {} if slot is None else dict(self._world.nodes.facts[slot].held.get(plane, {}))
        written = self._written.get((node, plane))
        if written is None or slot is None or written == noted:
            self._written.pop((node, plane), None)
            return noted
        return written

    async def _write(self, plane: PlaneId, node: str, amounts: Amounts) -> bool:
        text = msgspec.json.encode(amounts).decode() if amounts else None
        patch = {"metadata": {"annotations": {held_key(plane): text}}}
        try:
            await self._home().patch(SYSTEM, NODES, node, patch)
        except (ApiError, ClientError):
            return False
        self._written[(node, plane)] = amounts
        return True

    async def sweep(self) -> None:
        """Now and then take back notes that are far ahead of what is used; until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            for node, plane in self._excessive()[:SWEPT_AT_ONCE]:
                async with self._locks.setdefault((node, plane), asyncio.Lock()):
                    needed = self.needed(plane, node)
                    await self._write(plane, node, _ahead(needed))

    def _excessive(self) -> list[Slot]:
        found: list[Slot] = []
        for node, slot in self._world.nodes.slots.items():
            for name in self._world.nodes.facts[slot].held:
                plane = PlaneId(name)
                if self._world.notes.is_settled(plane):
                    noted, needed = self._noted(plane, node), self.needed(plane, node)
                    if any(amount > 2 * _ahead(needed).get(each, 0) for each, amount in noted.items()):
                        found.append((node, plane))
        return found


def _ahead(needed: Amounts) -> Amounts:
    """As much more as two pods more would be, and at least a quarter."""
    more = 1 + max(AHEAD_LEAST, AHEAD_PODS / max(1, needed.get(PODS, 0)))
    return {name: ceil(amount * more) for name, amount in needed.items()}
