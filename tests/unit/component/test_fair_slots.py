"""Slots shared between owners: no owner takes all of them, and none is lost."""

import asyncio
import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from alcove.component.fair_slots import FairSlots, TooManyWaiting

RING0 = "ring0"


async def test_owners_that_never_release_leave_a_slot_for_the_next() -> None:
    shares, had = FairSlots[str](32), Counter[str]()
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


async def test_the_unlimited_owner_may_have_every_one() -> None:
    shares = FairSlots(8, unlimited=RING0)
    for _ in range(8):
        await shares.take(RING0)
    assert shares.free == 0


async def test_who_waits_is_served_round_robin_by_owner() -> None:
    shares, served = FairSlots(2, unlimited=RING0), list[str]()
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
    shares, most = FairSlots(total, unlimited=RING0), Counter[str]()

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
        async with asyncio.timeout(60):
            await asyncio.gather(*tasks, return_exceptions=True)
        assert shares.free == total and not shares._waiting and not shares._used

    asyncio.run(scenario())


async def is_free(slots: FairSlots[str], owner: str) -> bool:
    try:
        async with asyncio.timeout(0.05), slots.slot(owner):
            return True
    except TimeoutError:
        return False


async def test_an_owner_may_have_no_more_than_its_maximum() -> None:
    slots = FairSlots[str](64, owner_max=2)
    async with slots.slot("hog"), slots.slot("hog"):
        assert not await is_free(slots, "hog")
        assert await is_free(slots, "quiet")
    assert await is_free(slots, "hog")


async def test_the_first_slot_of_an_owner_is_there_even_if_none_is_free() -> None:
    slots = FairSlots[str](2, unlimited="all", first_is_free=True)
    async with slots.slot("all"), slots.slot("all"), slots.slot("quiet"):
        assert not await is_free(slots, "quiet")
        assert await is_free(slots, "another")
    assert slots.free == 2


async def test_too_many_who_wait_are_refused_of_the_owner_with_most() -> None:
    slots, refused = FairSlots[str](2, waiting_max=4), list[str]()
    await slots.take("a")
    await slots.take("b")

    async def wait(owner: str) -> None:
        try:
            async with slots.slot(owner):
                pass
        except TooManyWaiting:
            refused.append(owner)

    async with asyncio.TaskGroup() as tasks:
        for owner in ("greedy", "greedy", "greedy", "small", "greedy", "small", "third"):
            tasks.create_task(wait(owner))
        for _ in range(3):
            await asyncio.sleep(0)
        assert refused == ["greedy", "greedy", "small"], "the newest of who has most"
        for owner in ("a", "b"):
            slots.release(owner)
    assert slots.free == 2 and refused == ["greedy", "greedy", "small"]


async def test_who_is_refused_and_cancelled_at_once_gives_no_slot_back() -> None:
    slots = FairSlots[str](1, waiting_max=1)
    await slots.take("a")
    first = asyncio.create_task(slots.take("b"))
    await asyncio.sleep(0)
    second = asyncio.create_task(slots.take("b"))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert slots.free == 0
    slots.release("a")
    await first
    assert slots.free == 0
