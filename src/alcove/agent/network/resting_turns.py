"""Turns of tenants at what takes a node's CPU time, with a rest after each: flows, traces.

A tenant that asked all the time would keep a core busy that DNS and probes need.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from alcove.api.ids import TenantId
from alcove.component.fair_slots import FairSlots

REST_FACTOR = 3
"""How much longer than its last turn took a tenant waits for the next one."""


class RestingTurns:
    def __init__(self) -> None:
        self._turns: FairSlots[TenantId] = FairSlots(1, owner_max=1, first_is_free=True)
        """One request of each tenant, and its rest."""
        self._working = asyncio.Semaphore(1)

    @asynccontextmanager
    async def turn(self, tenant: TenantId) -> AsyncIterator[None]:
        """One turn at a time, of all tenants; the others wait."""
        loop = asyncio.get_running_loop()
        await self._turns.take(tenant)
        seconds = 0.0
        try:
            async with self._working:
                began = loop.time()
                try:
                    yield
                finally:
                    seconds = loop.time() - began
        finally:
            loop.call_later(seconds * REST_FACTOR, self._turns.release, tenant)
