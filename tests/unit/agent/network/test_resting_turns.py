"""Turns at a node's CPU time: one at a time, and a tenant rests after each."""

import asyncio

from alcove.agent.network.resting_turns import REST_FACTOR, RestingTurns
from alcove.api.ids import TenantId

GREEDY, OTHER = TenantId("greedy"), TenantId("other")
WORK_SECONDS = 0.02


async def test_a_tenant_that_asks_all_the_time_rests_and_others_do_not_wait_for_it() -> None:
    turns, loop = RestingTurns(), asyncio.get_running_loop()
    times: list[float] = []

    async def work(tenant: TenantId) -> None:
        async with turns.turn(tenant):
            times.append(loop.time())
            await asyncio.sleep(WORK_SECONDS)

    greedy = [asyncio.create_task(work(GREEDY)) for _ in range(3)]
    await greedy[0]
    await work(OTHER)
    assert not greedy[1].done()
    await asyncio.gather(*greedy)
    first, other, second, third = times
    assert first < other < second < third
    assert third - second >= WORK_SECONDS * (1 + REST_FACTOR)
