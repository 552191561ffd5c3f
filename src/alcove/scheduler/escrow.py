"""Escrow: resources on a node that are recorded in ring0 for dedicated planes before their pods may use them.

The record is a ConfigMap per node, with the node's name, in its own namespace, with a key for each plane. It
is in ring0 and outlives the node. A scheduler that starts while a plane is unreachable does not know that
plane's pods, but knows from the record how much they can use, and leaves it free until the plane is synced.
Records exceed the current use a little, so that most decisions need no write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import ceil
from weakref import WeakValueDictionary

import msgspec

from alcove.api.errors import AlreadyExists, ApiError, NotFound
from alcove.api.escrow import NAMESPACE
from alcove.api.ids import SYSTEM
from alcove.client.client import Client
from alcove.client.errors import ClientError
from alcove.client.keys import HOME, PlaneId
from alcove.client.resources import CONFIG_MAPS, NAMESPACES
from alcove.scheduler.resource_amounts import PODS, Amounts
from alcove.scheduler.scheduler_cache import SchedulerCache

AHEAD_MIN = 1 / 4
AHEAD_PODS = 2
SWEEP_SECONDS = 10.0
SWEPT_AT_ONCE = 256


class Escrow:
    def __init__(
        self, cache: SchedulerCache, home: Callable[[], Client], is_over: Callable[[PlaneId], bool]
    ) -> None:
        """`is_over`: whether a plane no longer exists."""
        self._cache = cache
        self._home = home
        self._is_over = is_over
        self._written = cache.notes.written
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Lock per node: serializes writes of its record."""
        self._pending_nodes: list[str] = []

    async def cover(self, plane: PlaneId, node: str) -> bool:
        """Ensures that the node's record covers all requests of the plane's pods on it, including assumed
        ones."""
        if plane == HOME:
            return True
        async with self._locks.setdefault(node, asyncio.Lock()):
            needed = self._cache.used_by(plane, node)
            recorded = self._recorded(plane, node)
            if all(recorded.get(name, 0) >= amount for name, amount in needed.items()):
                return True
            ahead = _ahead(needed)
            return await self._write(plane, node, ahead, self._put(node, {plane: _text(ahead)}))

    async def sweep(self) -> None:
        """Lowers records that far exceed the use, and writes those of planes that tenants have moved to with their
        pods, every SWEEP_SECONDS, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._pending_nodes = self._pending_nodes or list({*self._cache.notes.held, *self._cache.on_node})
            nodes, self._pending_nodes = (
                self._pending_nodes[:SWEPT_AT_ONCE],
                self._pending_nodes[SWEPT_AT_ONCE:],
            )
            for node in nodes:
                await self.lower(node)
                for plane in self._cache.planes_on(node):
                    await self.cover(plane, node)

    async def lower(self, node: str) -> None:
        for plane in self._cache.notes.held.get(node, {}):
            async with self._locks.setdefault(node, asyncio.Lock()):
                maximum = self._maximum(plane, node)
                recorded = self._recorded(plane, node)
                if maximum is not None and any(
                    amount > 2 * maximum.get(name, 0) for name, amount in recorded.items()
                ):
                    await self._write(plane, node, maximum, self._lower(node, plane, maximum))

    def _maximum(self, plane: PlaneId, node: str) -> Amounts | None:
        """The maximum that a record should have. None if the plane is not synced."""
        if self._is_over(plane):
            return {}
        return _ahead(self._cache.used_by(plane, node)) if self._cache.notes.is_known(plane) else None

    def _recorded(self, plane: PlaneId, node: str) -> Amounts:
        recorded = self._cache.notes.of(plane, node)
        written = self._written.get((node, plane))
        if written is None or written == recorded:
            self._written.pop((node, plane), None)
            return recorded
        return written

    async def _write(self, plane: PlaneId, node: str, amounts: Amounts, write: Awaitable[None]) -> bool:
        try:
            await write
        except (ApiError, ClientError):
            # The write may still take effect. The next `cover` writes the record again.
            self._written[(node, plane)] = {}
            return False
        self._written[(node, plane)] = amounts
        return True

    async def _put(self, node: str, data: dict[PlaneId, str]) -> None:
        """Sets the keys in the node's record, whatever its current version."""
        home = self._home()
        record = {"metadata": {"name": node, "namespace": NAMESPACE}, "data": data}
        try:
            await home.patch(SYSTEM, CONFIG_MAPS, node, {"data": data}, namespace=NAMESPACE)
        except NotFound:
            try:
                await home.create(SYSTEM, CONFIG_MAPS, record)
            except NotFound:
                await _create_namespace(home)
                await home.create(SYSTEM, CONFIG_MAPS, record)

    async def _lower(self, node: str, plane: PlaneId, amounts: Amounts) -> None:
        """Lowers the record with a version precondition: a late write must not undo a newer `_put`."""
        home = self._home()
        record = await home.get(SYSTEM, CONFIG_MAPS, node, namespace=NAMESPACE)
        data = {key: text for key, text in (record.get("data") or {}).items() if key != plane}
        if amounts:
            data[plane] = _text(amounts)
        if data:
            await home.update(SYSTEM, CONFIG_MAPS, {**record, "data": data})
        else:
            revision = record["metadata"]["resourceVersion"]
            await home.delete(SYSTEM, CONFIG_MAPS, node, namespace=NAMESPACE, revision=revision)


def _text(amounts: Amounts) -> str:
    return msgspec.json.encode(amounts).decode()


async def _create_namespace(home: Client) -> None:
    try:
        await home.create(SYSTEM, NAMESPACES, {"metadata": {"name": NAMESPACE}})
    except AlreadyExists:
        pass


def _ahead(needed: Amounts) -> Amounts:
    """The needed amounts plus those of two more pods, and at least a quarter more."""
    more = 1 + max(AHEAD_MIN, AHEAD_PODS / max(1, needed.get(PODS, 0)))
    return {name: ceil(amount * more) for name, amount in needed.items()}
