"""Escrow: what dedicated planes may have on a node is noted in ring0, before they get it.

A ConfigMap for each node, of the node's name, in a namespace of its own; a key for each plane. It is
ring0's and survives everything else, the node too. A scheduler that starts while a plane is away does not
know that plane's pods, but it knows from the notes how much they can have, and leaves that alone until the
plane tells. Notes run a little ahead of what is used, so that most decisions need no new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import ceil

import msgspec

from alcove.api.errors import AlreadyExists, ApiError, NotFound
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.errors import ClientError
from alcove.client.keys import HOME, PlaneId
from alcove.client.resources import CONFIG_MAPS, NAMESPACES
from alcove.scheduler.amounts import PODS, Amounts
from alcove.scheduler.world import World

NAMESPACE = "alcove-escrow"
AHEAD_LEAST = 1 / 4
AHEAD_PODS = 2
SWEEP_SECONDS = 10.0
SWEPT_AT_ONCE = 64

Slot = tuple[str, PlaneId]


class Escrow:
    def __init__(self, world: World, home: Callable[[], Client], is_over: Callable[[PlaneId], bool]) -> None:
        """`is_over`: the plane is no more, and its pods neither."""
        self._world = world
        self._home = home
        self._is_over = is_over
        self._written: dict[Slot, Amounts] = {}
        """Notes that were written and may not have been seen yet."""
        self._locks: dict[str, asyncio.Lock] = {}
        """By node: notes of one are written one after another."""

    async def cover(self, plane: PlaneId, node: str) -> bool:
        """Make sure that the node's note covers all that the plane's pods have on it, assumed ones too."""
        if plane == HOME:
            return True
        lock = self._locks.setdefault(node, asyncio.Lock())
        async with lock:
            needed = self._world.used_by(plane, node)
            noted = self._noted(plane, node)
            is_covered = all(noted.get(name, 0) >= amount for name, amount in needed.items())
            done = is_covered or await self._write(plane, node, _ahead(needed))
        if not lock.locked():
            self._locks.pop(node, None)
        return done

    def _noted(self, plane: PlaneId, node: str) -> Amounts:
        noted = self._world.notes.of(plane, node)
        written = self._written.get((node, plane))
        if written is None or written == noted:
            self._written.pop((node, plane), None)
            return noted
        return written

    async def _write(self, plane: PlaneId, node: str, amounts: Amounts) -> bool:
        text = msgspec.json.encode(amounts).decode() if amounts else None
        try:
            note = await self._patch(node, {plane: text})
            if not note.get("data"):
                found = note["metadata"]
                await self._home().delete(
                    SYSTEM, CONFIG_MAPS, node, namespace=NAMESPACE, revision=found["resourceVersion"]
                )
        except (ApiError, ClientError):
            return False
        self._written[(node, plane)] = amounts
        return True

    async def _patch(self, node: str, data: dict[PlaneId, str | None]) -> Object:
        home = self._home()
        try:
            return await home.patch(SYSTEM, CONFIG_MAPS, node, {"data": data}, namespace=NAMESPACE)
        except NotFound:
            note = {"metadata": {"name": node, "namespace": NAMESPACE}, "data": data}
        try:
            return await home.create(SYSTEM, CONFIG_MAPS, note)
        except NotFound:
            await _make_namespace(home)
            return await home.create(SYSTEM, CONFIG_MAPS, note)

    async def sweep(self) -> None:
        """Now and then take back what is noted far ahead of what is used; until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.take_back()

    async def take_back(self) -> None:
        for node, plane in self._excessive()[:SWEPT_AT_ONCE]:
            async with self._locks.setdefault(node, asyncio.Lock()):
                await self._write(plane, node, self._most(plane, node))

    def _excessive(self) -> list[Slot]:
        notes = self._world.notes
        return [
            (node, plane)
            for node, held in notes.held.items()
            for plane in held
            if (notes.is_known(plane) or self._is_over(plane)) and self._is_excessive(plane, node)
        ]

    def _is_excessive(self, plane: PlaneId, node: str) -> bool:
        most = self._most(plane, node)
        return any(amount > 2 * most.get(name, 0) for name, amount in self._noted(plane, node).items())

    def _most(self, plane: PlaneId, node: str) -> Amounts:
        """What a note should say at most."""
        return {} if self._is_over(plane) else _ahead(self._world.used_by(plane, node))


async def _make_namespace(home: Client) -> None:
    try:
        await home.create(SYSTEM, NAMESPACES, {"metadata": {"name": NAMESPACE}})
    except AlreadyExists:
        pass


def _ahead(needed: Amounts) -> Amounts:
    """As much more as two pods more would be, and at least a quarter."""
    more = 1 + max(AHEAD_LEAST, AHEAD_PODS / max(1, needed.get(PODS, 0)))
    return {name: ceil(amount * more) for name, amount in needed.items()}
