"""Making many objects: few at first, more as it goes well, and never more at once than a tenant's share.

What is refused once is likely refused a thousand times: batches begin with one and double as long as all
succeed. A tenant's requests of this kind share `AT_ONCE_PER_TENANT_MAX`, so that a tenant with many pods
to make never stands before another with a few in the line for connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct

from alcove.api.objects import Object
from alcove.client.keys import TenantKey

AT_ONCE_PER_TENANT_MAX = 12
BURST_MAX = 500
"""How many objects one turn makes or deletes at most; the rest is for the next turn."""

T = TypeVar("T")


class TenantRequestLimits:
    """Each tenant's share of requests at once."""

    def __init__(self, at_once_max: int = AT_ONCE_PER_TENANT_MAX) -> None:
        self._at_once_max = at_once_max
        self._lanes: WeakValueDictionary[TenantKey, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, tenant_key: TenantKey) -> asyncio.Semaphore:
        lane = self._lanes.get(tenant_key)
        if lane is None:
            lane = self._lanes[tenant_key] = asyncio.Semaphore(self._at_once_max)
        return lane


class CreatedObjects(Struct, frozen=True):
    objects: list[Object]
    error: Exception | None = None
    """The first one; what came after it was not tried."""


async def slow_start(
    lane: asyncio.Semaphore, desired: Sequence[T], make: Callable[[T], Coroutine[Any, Any, Object]]
) -> CreatedObjects:
    made: list[Object] = []
    begun, size = 0, 1
    while begun < len(desired):
        batch = desired[begun : begun + size]
        results = await asyncio.gather(*(_within(lane, make, each) for each in batch), return_exceptions=True)
        made += [each for each in results if not isinstance(each, BaseException)]
        for each in results:
            if isinstance(each, Exception):
                return CreatedObjects(made, each)
            if isinstance(each, BaseException):
                raise each
        begun += len(batch)
        size *= 2
    return CreatedObjects(made)


async def _within(
    lane: asyncio.Semaphore, make: Callable[[T], Coroutine[Any, Any, Object]], what: T
) -> Object:
    async with lane:
        return await make(what)
