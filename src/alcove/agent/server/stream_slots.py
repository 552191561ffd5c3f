"""How many streams of a kind a node serves at the same time, shared fairly between tenants."""

from __future__ import annotations

import asyncio

from alcove.api.errors import TooManyRequests
from alcove.component.fair_slots import FairSlots

RETRY_SECONDS = 5


class StreamSlots:
    def __init__(self, total: int, what: str) -> None:
        """`what` names the streams in the error's message."""
        self._slots: FairSlots[str] = FairSlots(total)
        self._what = what

    async def enter(self, tenant: str) -> None:
        """Raises TooManyRequests at once if there is no slot for the tenant."""
        try:
            async with asyncio.timeout(0):
                await self._slots.take(tenant)
        except TimeoutError:
            message = f"too many {self._what} on the node; end some, or try again later"
            raise TooManyRequests.after(RETRY_SECONDS, message) from None

    def leave(self, tenant: str) -> None:
        self._slots.release(tenant)
