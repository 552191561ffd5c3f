"""How many exec probes run at the same time, on the node and per tenant.

Each is a process of the node until it has started in the container. A tenant that has no probe running may
always start one, so that no number of other tenants' probes keeps it from that.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from alcove.agent.podkey import PodKey

EXEC_PROBES_MAX = 64
"""Exec probes that run at the same time on a node; more wait, except the first one of each tenant."""
TENANT_EXEC_PROBES_MAX = 16
"""Exec probes of one tenant that run at the same time on a node; more wait, and so run less often."""

_Tenant = tuple[str, str]


class ExecProbeSlots:
    def __init__(self) -> None:
        self._running: dict[_Tenant, int] = {}
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def slot(self, key: PodKey) -> AsyncIterator[None]:
        """Waits until a probe of the pod may run, and counts it until the end of the block."""
        tenant = (key.plane, key.tenant)
        async with self._changed:
            await self._changed.wait_for(lambda: self._may_start(tenant))
            self._running[tenant] = self._running.get(tenant, 0) + 1
        try:
            yield
        finally:
            self._running[tenant] -= 1
            if not self._running[tenant]:
                del self._running[tenant]
            await asyncio.shield(self._notify())

    def _may_start(self, tenant: _Tenant) -> bool:
        own = self._running.get(tenant, 0)
        is_free = own < TENANT_EXEC_PROBES_MAX and sum(self._running.values()) < EXEC_PROBES_MAX
        return own == 0 or is_free

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
