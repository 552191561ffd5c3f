"""Escrow: what dedicated planes may have on a node is noted in ring0, before they get it.

A ConfigMap for each node, of the node's name, in a namespace of its own; a key for each plane. It is
ring0's and survives everything else, the node too. A scheduler that starts while a plane is away does not
know that plane's pods, but it knows from the notes how much they can have, and leaves that alone until the
plane tells. Notes run a little ahead of what is used, so that most decisions need no new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import ceil
from weakref import WeakValueDictionary

import msgspec

from alcove.api.errors import AlreadyExists, ApiError, NotFound
from alcove.api.ids import SYSTEM
from alcove.client.client import Client
from alcove.client.errors import ClientError
from alcove.client.keys import HOME, PlaneId
from alcove.client.resources import CONFIG_MAPS, NAMESPACES
from alcove.scheduler.resource_amounts import PODS, Amounts
from alcove.scheduler.scheduler_cache import SchedulerCache

NAMESPACE = "alcove-escrow"
AHEAD_LEAST = 1 / 4
AHEAD_PODS = 2
SWEEP_SECONDS = 10.0
SWEPT_AT_ONCE = 256

Slot = tuple[str, PlaneId]


class Escrow:
    def __init__(
        self, cache: SchedulerCache, home: Callable[[], Client], is_over: Callable[[PlaneId], bool]
    ) -> None:
        """`is_over`: the plane is no more, and its pods neither."""
        self._cache = cache
        self._home = home
        self._is_over = is_over
        self._written: dict[Slot, Amounts] = {}
        """What was written and may not have been seen yet; nothing, where it is not known what was."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By node: its note is written by one at a time."""
        self._unswept: list[str] = []

    async def cover(self, plane: PlaneId, node: str) -> bool:
        """Make sure that the node's note covers all that the plane's pods have on it, assumed ones too."""
        if plane == HOME:
            return True
        async with self._locks.setdefault(node, asyncio.Lock()):
            needed = self._cache.used_by(plane, node)
            noted = self._noted(plane, node)
            if all(noted.get(name, 0) >= amount for name, amount in needed.items()):
                return True
            ahead = _ahead(needed)
            return await self._write(plane, node, ahead, self._put(node, {plane: _text(ahead)}))

    async def sweep(self) -> None:
        """Now and then take back what is noted far ahead of what is used; until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._unswept = self._unswept or list(self._cache.notes.held)
            nodes, self._unswept = self._unswept[:SWEPT_AT_ONCE], self._unswept[SWEPT_AT_ONCE:]
            for node in nodes:
                await self.take_back(node)

    async def take_back(self, node: str) -> None:
        for plane in self._cache.notes.held.get(node, {}):
            async with self._locks.setdefault(node, asyncio.Lock()):
                most = self._most(plane, node)
                noted = self._noted(plane, node)
                if most is not None and any(amount > 2 * most.get(name, 0) for name, amount in noted.items()):
                    await self._write(plane, node, most, self._lower(node, plane, most))

    def _most(self, plane: PlaneId, node: str) -> Amounts | None:
        """What a note should say at most; None: who knows."""
        if self._is_over(plane):
            return {}
        return _ahead(self._cache.used_by(plane, node)) if self._cache.notes.is_known(plane) else None

    def _noted(self, plane: PlaneId, node: str) -> Amounts:
        noted = self._cache.notes.of(plane, node)
        written = self._written.get((node, plane))
        if written is None or written == noted:
            self._written.pop((node, plane), None)
            return noted
        return written

    async def _write(self, plane: PlaneId, node: str, amounts: Amounts, write: Awaitable[None]) -> bool:
        try:
            await write
        except (ApiError, ClientError):
            # It may come true yet. Whoever needs the note writes it anew.
            self._written[(node, plane)] = {}
            return False
        self._written[(node, plane)] = amounts
        return True

    async def _put(self, node: str, data: dict[PlaneId, str]) -> None:
        """Whatever is there."""
        home = self._home()
        note = {"metadata": {"name": node, "namespace": NAMESPACE}, "data": data}
        try:
            await home.patch(SYSTEM, CONFIG_MAPS, node, {"data": data}, namespace=NAMESPACE)
        except NotFound:
            try:
                await home.create(SYSTEM, CONFIG_MAPS, note)
            except NotFound:
                await _make_namespace(home)
                await home.create(SYSTEM, CONFIG_MAPS, note)

    async def _lower(self, node: str, plane: PlaneId, amounts: Amounts) -> None:
        """Only what is there now: should this come late, it must not undo what was put after it."""
        home = self._home()
        note = await home.get(SYSTEM, CONFIG_MAPS, node, namespace=NAMESPACE)
        data = {key: text for key, text in (note.get("data") or {}).items() if key != plane}
        if amounts:
            data[plane] = _text(amounts)
        if data:
            await home.update(SYSTEM, CONFIG_MAPS, {**note, "data": data})
        else:
            revision = note["metadata"]["resourceVersion"]
            await home.delete(SYSTEM, CONFIG_MAPS, node, namespace=NAMESPACE, revision=revision)


def _text(amounts: Amounts) -> str:
    return msgspec.json.encode(amounts).decode()


async def _make_namespace(home: Client) -> None:
    try:
        await home.create(SYSTEM, NAMESPACES, {"metadata": {"name": NAMESPACE}})
    except AlreadyExists:
        pass


def _ahead(needed: Amounts) -> Amounts:
    """As much more as two pods more would be, and at least a quarter."""
    more = 1 + max(AHEAD_LEAST, AHEAD_PODS / max(1, needed.get(PODS, 0)))
    return {name: ceil(amount * more) for name, amount in needed.items()}
