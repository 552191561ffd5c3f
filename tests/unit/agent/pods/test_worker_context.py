"""What tenants share on a node: one that probes all the time does not keep others from being probed."""

import asyncio

from alcove.agent.pods.worker_context import TENANT_NETWORK_PROBES_MAX, probe_slots
from alcove.api.ids import TenantId
from alcove.client.keys import HOME, TenantKey


async def test_a_tenant_with_many_probes_waits_for_its_own_and_nobody_else_does() -> None:
    slots = probe_slots().network
    loud, quiet = TenantKey(HOME, TenantId("loud")), TenantKey(HOME, TenantId("quiet"))
    for _ in range(TENANT_NETWORK_PROBES_MAX):
        await slots.take(loud)
    waiting = asyncio.create_task(slots.take(loud))
    async with asyncio.timeout(60):
        await slots.take(quiet)
        assert not waiting.done()
        slots.release(loud)
        await waiting
