"""One tenant's exec probes, however many and however long, leave the others theirs."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from alcove.agent.podkey import PodKey
from alcove.agent.probes.slots import EXEC_PROBES_MAX, TENANT_EXEC_PROBES_MAX, ExecProbeSlots
from alcove.api.ids import TenantId
from alcove.client.keys import HOME


def key(tenant: str) -> PodKey:
    return PodKey(HOME, TenantId(tenant), "n", "p", "u")


async def is_free(slots: ExecProbeSlots, tenant: str) -> bool:
    try:
        async with asyncio.timeout(0.05), slots.slot(key(tenant)):
            return True
    except TimeoutError:
        return False


async def test_a_tenant_waits_for_its_own_probes_and_others_do_not() -> None:
    slots = ExecProbeSlots()
    async with AsyncExitStack() as stack:
        for _ in range(TENANT_EXEC_PROBES_MAX):
            await stack.enter_async_context(slots.slot(key("hog")))
        assert not await is_free(slots, "hog")
        assert await is_free(slots, "quiet")
    assert await is_free(slots, "hog")


async def test_a_full_node_has_room_for_a_tenants_first_probe_only() -> None:
    slots = ExecProbeSlots()
    async with AsyncExitStack() as stack:
        for number in range(EXEC_PROBES_MAX):
            await stack.enter_async_context(slots.slot(key(f"hog{number // TENANT_EXEC_PROBES_MAX}")))
        async with slots.slot(key("quiet")):
            assert not await is_free(slots, "quiet")
            assert await is_free(slots, "another")


async def test_who_waits_goes_on_when_a_probe_ends_or_is_cancelled() -> None:
    slots = ExecProbeSlots()
    holding = [asyncio.create_task(_hold(slots)) for _ in range(TENANT_EXEC_PROBES_MAX + 1)]
    await asyncio.sleep(0)
    holding[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await holding[0]
    async with asyncio.timeout(5):
        while slots._running != {(HOME, "hog"): TENANT_EXEC_PROBES_MAX}:  # noqa: ASYNC110
            await asyncio.sleep(0)
    for each in holding[1:]:
        each.cancel()
    await asyncio.gather(*holding[1:], return_exceptions=True)
    assert slots._running == {}


async def _hold(slots: ExecProbeSlots) -> None:
    async with slots.slot(key("hog")):
        await asyncio.Event().wait()
