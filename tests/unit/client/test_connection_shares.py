"""Connections shared between tenants: no tenant takes all of them, and none is lost."""

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.client.connection_shares import RING0, ConnectionShares, tenant_of


@pytest.mark.parametrize(
    ("path", "who"),
    [
        ("/api/v1/tenants/acme/namespaces/default/pods/x", "acme"),
        ("/apis/apps/v1/tenants/acme/deployments?watch=1", "acme"),
        ("/api/v1/tenants/acme?limit=1", "acme"),
        ("/api/v1/tenants/system/nodes", RING0),
        ("/api/v1/tenants/all/pods", RING0),
        ("/api/v1/tenants", RING0),
        ("/version", RING0),
    ],
)
def test_the_tenant_of_a_request_path(path: str, who: str) -> None:
    assert tenant_of(path) == who


async def test_tenants_that_never_release_leave_a_connection_for_the_next() -> None:
    shares, had = ConnectionShares(32), Counter[str]()
    for tenant in ("first", "second", "third", "fourth", "fifth"):
        while True:
            try:
                async with asyncio.timeout(0):
                    await shares.take(tenant)
            except TimeoutError:
                break
            had[tenant] += 1
    assert list(had.values()) == [16, 8, 4, 2, 1] and shares.free == 1
    await shares.take("small")
    assert shares.free == 0


async def test_ring0_may_have_every_one() -> None:
    shares = ConnectionShares(8)
    for _ in range(8):
        await shares.take(RING0)
    assert shares.free == 0


async def test_waiting_requests_are_served_round_robin_by_tenant() -> None:
    shares, served = ConnectionShares(2), list[str]()
    for _ in range(2):
        await shares.take(RING0)

    async def ask(tenant: str) -> None:
        await shares.take(tenant)
        served.append(tenant)
        await asyncio.sleep(0)
        shares.release(tenant)

    tasks = [asyncio.create_task(ask("greedy")) for _ in range(50)]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(ask("small")) for _ in range(2)]
    await asyncio.sleep(0)
    for _ in range(2):
        shares.release(RING0)
    await asyncio.gather(*tasks)
    assert served[:4].count("small") == 2 and len(served) == 52


@given(st.integers(1, 8), st.integers(0, 2**32))
def test_whatever_happens_none_is_lost_and_nobody_waits_for_ever(total: int, seed: int) -> None:
    chance = random.Random(seed)
    shares, most = ConnectionShares(total), Counter[str]()

    async def ask(tenant: str, steps: int) -> None:
        await shares.take(tenant)
        most[tenant] += 1
        try:
            for _ in range(steps):
                await asyncio.sleep(0)
        finally:
            most[tenant] -= 1
            shares.release(tenant)
        assert most.total() <= total

    async def scenario() -> None:
        tasks = []
        for _ in range(60):
            tenant = chance.choice(("a", "a", "a", "b", "c", RING0))
            tasks.append(asyncio.create_task(ask(tenant, chance.randrange(4))))
            if chance.random() < 0.3:
                chance.choice(tasks).cancel()
            if chance.random() < 0.5:
                await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await asyncio.gather(*tasks, return_exceptions=True)
        assert shares.free == total and not shares._waiting and not shares._used

    asyncio.run(scenario())
