"""The seats of requests: first in the priority level of the tenant's own configuration, if it has any (`priority/`),
then among all tenants (`flow.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from alcove.api.errors import TooManyRequests
from alcove.api.ids import ALL, GroupResource, TenantId
from alcove.apiserver import flow
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.call import ApiCall
from alcove.apiserver.flow import FlowController
from alcove.apiserver.metering import LoopMeter
from alcove.apiserver.priority.divisions import Division, Divisions
from alcove.apiserver.priority.levels import rejection

_COLLECTION_VERBS = frozenset({"list", "watch", "deletecollection"})


class RequestSeats:
    def __init__(
        self, controller: FlowController, divisions: Divisions, meter: LoopMeter, cache: Cache
    ) -> None:
        self._flow = controller
        self._divisions = divisions
        self._meter = meter
        self._cache = cache
        self.rejected_in_levels = 0
        """Requests that a priority level of their own tenant rejected."""

    def take(self, call: ApiCall) -> Awaitable[None] | None:
        """Takes the request's seats: by the number of objects that a list visits, or the size of a write's body.
        Returns None if that needed no waiting. Raises TooManyRequests, now or when awaited."""
        is_small = not call.request.body and call.verb not in _COLLECTION_VERBS
        width = 1 if is_small else self._width(call)
        division = self._divisions.of(call.identity.tenant)
        if division is not None and not self._try_level(division, call, width):
            return self._wait(division, call, width)
        take = self._flow.try_first if self._meter.is_late else self._flow.try_acquire
        if take(call.identity.tenant, width):
            call.seats = width
            return None
        return self._queue(call, width)

    def pass_through(self, tenant: TenantId) -> bool:
        """Takes and releases the seat of a small request that is answered at once; False if it has to be taken as any
        other."""
        if (
            self._meter.is_late
            or self._divisions.of(tenant) is not None
            or not self._flow.try_acquire(tenant)
        ):
            return False
        self._flow.release(tenant)
        return True

    def release(self, call: ApiCall) -> None:
        width, call.seats = call.seats, 0
        if width:
            self._flow.release(call.identity.tenant, width)
        if call.level_seats:
            self._release_level(call)

    def _width(self, call: ApiCall) -> int:
        target = call.target
        if call.verb not in _COLLECTION_VERBS or not target.is_resource:
            return flow.width(size_bytes=len(call.request.body))
        tenant = None if call.tenant == ALL else call.tenant
        resource = GroupResource(target.group, target.resource)
        return flow.width(self._cache.count(tenant, resource, target.namespace or None))

    def _try_level(self, division: Division, call: ApiCall, width: int) -> bool:
        call.flow = division.classify(call)
        level = call.flow.level
        if level.config.is_exempt:
            return True
        call.level_seats = division.seats.try_acquire(level, width)
        return bool(call.level_seats)

    async def _wait(self, division: Division, call: ApiCall, width: int) -> None:
        assert call.flow is not None
        level, schema = call.flow.level, call.flow.schema
        try:
            async with asyncio.timeout(self._flow.limits.wait_seconds_max):
                call.level_seats = await division.seats.acquire(
                    level, schema.flow_of(call.identity, call.target), width
                )
        except TimeoutError as error:
            self.rejected_in_levels += 1
            raise rejection(level.config.name, "it waited for too long") from error
        except TooManyRequests:
            self.rejected_in_levels += 1
            raise
        await self._queue(call, width)

    async def _queue(self, call: ApiCall, width: int) -> None:
        try:
            await self._flow.acquire(call.identity.tenant, width)
        except BaseException:
            if call.level_seats:
                self._release_level(call)
            raise
        call.seats = width

    def _release_level(self, call: ApiCall) -> None:
        seats, call.level_seats = call.level_seats, 0
        assert call.flow is not None
        call.flow.release(seats)
