"""Fair sharing of a bounded number of connections: one tenant's slow requests cannot occupy all of them.

A tenant gets another connection only while more are free than it has. So one tenant alone gets at most half
of them, a second one half of the rest, and so on: the next tenant finds a free one, however long other
tenants' requests take (their webhooks determine that). Waiting requests are served round-robin by tenant.
Requests of ring0 only need a free connection.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

RING0 = ""
_TENANTS = "/tenants/"


def tenant_of(path: str) -> str:
    """The tenant of a request, from its path in the full form (`paths.py`); RING0 for requests of ring0."""
    start = path.find(_TENANTS)
    if start < 0:
        return RING0
    start += len(_TENANTS)
    end = path.find("/", start)
    tenant = path[start:end] if end >= 0 else path[start:].partition("?")[0]
    return RING0 if tenant in ("system", "all") else tenant


class ConnectionShares:
    """Counts connections in use per tenant. Belongs to one event loop."""

    def __init__(self, total: int) -> None:
        self.free = total
        self._used: dict[str, int] = {}
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """Waiting requests by tenant, in round-robin order."""

    async def take(self, tenant: str) -> None:
        """Wait until the tenant may use another connection. The caller must call `release` afterwards."""
        if tenant not in self._waiting and self._may(tenant):
            self._grant(tenant)
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self.release(tenant)  # It was granted just before the cancellation.
            raise

    def release(self, tenant: str) -> None:
        self.free += 1
        self._used[tenant] -= 1
        if not self._used[tenant]:
            del self._used[tenant]
        while self.free and (next_tenant := next(filter(self._may, self._waiting), None)) is not None:
            waiter = self._waiting[next_tenant].popleft()
            if not waiter.cancelled():
                self._grant(next_tenant)
                waiter.set_result(None)
                self._waiting.move_to_end(next_tenant)
            if not self._waiting[next_tenant]:
                del self._waiting[next_tenant]

    def _may(self, tenant: str) -> bool:
        return self.free > (0 if tenant == RING0 else self._used.get(tenant, 0))

    def _grant(self, tenant: str) -> None:
        self.free -= 1
        self._used[tenant] = self._used.get(tenant, 0) + 1
