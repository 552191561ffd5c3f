"""Creation of many objects with slow start, and a limit of concurrent requests per tenant.

A request that is rejected once is likely to be rejected a thousand times: batches begin with one object and
double as long as all succeed. A tenant has at most `AT_ONCE_PER_TENANT_MAX` such requests in flight, so
that a tenant with many pods to create does not delay another's requests.
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
"""The maximum number of objects that one reconcile creates or deletes."""

T = TypeVar("T")


class TenantRequestLimits:
    """A semaphore per tenant for concurrent requests."""

    def __init__(self, at_once_max: int = AT_ONCE_PER_TENANT_MAX) -> None:
        self._at_once_max = at_once_max
        self._semaphores: WeakValueDictionary[TenantKey, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, tenant_key: TenantKey) -> asyncio.Semaphore:
        semaphore = self._semaphores.get(tenant_key)
        if semaphore is None:
            semaphore = self._semaphores[tenant_key] = asyncio.Semaphore(self._at_once_max)
        return semaphore


class CreatedObjects(Struct, frozen=True):
    objects: list[Object]
    error: Exception | None = None
    """The first error; later batches were not tried."""


async def slow_start(
    semaphore: asyncio.Semaphore, desired: Sequence[T], make: Callable[[T], Coroutine[Any, Any, Object]]
) -> CreatedObjects:
    created: list[Object] = []
    started, size = 0, 1
    while started < len(desired):
        batch = desired[started : started + size]
        results = await asyncio.gather(
            *(_within(semaphore, make, each) for each in batch), return_exceptions=True
        )
        created += [each for each in results if not isinstance(each, BaseException)]
        for each in results:
            if isinstance(each, Exception):
                return CreatedObjects(created, each)
            if isinstance(each, BaseException):
                raise each
        started += len(batch)
        size *= 2
    return CreatedObjects(created)


async def _within(
    semaphore: asyncio.Semaphore, make: Callable[[T], Coroutine[Any, Any, Object]], item: T
) -> Object:
    async with semaphore:
        return await make(item)
