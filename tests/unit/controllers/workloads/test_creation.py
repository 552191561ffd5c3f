"""Making many: slow at first, stopped by the first refusal, and only so many at once."""

import asyncio

from alcove.api.errors import Forbidden
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME, TenantKey
from alcove.controllers.workloads.creation import TenantRequestLimits, slow_start


def test_all_are_made_in_growing_batches_within_the_lane() -> None:
    running, most, order = 0, 0, []

    async def make(number: int) -> Object:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        order.append(number)
        return {"number": number}

    made = asyncio.run(slow_start(asyncio.Semaphore(4), range(40), make))
    assert made.error is None and sorted(order) == list(range(40)) and most == 4


def test_a_refusal_stops_what_was_not_begun() -> None:
    tried = []

    async def make(number: int) -> Object:
        tried.append(number)
        if number == 2:
            raise Forbidden("exceeded quota")
        return {"number": number}

    made = asyncio.run(slow_start(asyncio.Semaphore(8), range(100), make))
    assert tried == [0, 1, 2]
    assert isinstance(made.error, Forbidden) and made.objects == [{"number": 0}, {"number": 1}]


def test_each_tenant_has_its_own_lane() -> None:
    lanes = TenantRequestLimits()
    one = lanes.of(TenantKey(HOME, TenantId("one")))
    assert lanes.of(TenantKey(HOME, TenantId("one"))) is one
    assert lanes.of(TenantKey(HOME, TenantId("two"))) is not one
