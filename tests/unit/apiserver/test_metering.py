import asyncio
import time

from alcove.api.ids import TenantId
from alcove.apiserver.metering import ITERATION_SECONDS, LoopMeter

A, B = TenantId("a"), TenantId("b")


def busy(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


async def test_a_request_is_charged_for_its_steps_and_not_for_its_waiting() -> None:
    charged: list[tuple[TenantId, float]] = []

    async def request() -> str:
        busy(0.002)
        await asyncio.sleep(0.05)
        busy(0.002)
        return "done"

    meter = LoopMeter(lambda tenant, seconds: charged.append((tenant, seconds)))
    assert await meter.measured(A, request()) == "done"
    assert [tenant for tenant, _ in charged] == [A, A]
    assert all(seconds >= 0.002 for _, seconds in charged)


async def test_long_steps_of_one_tenant_are_spread_over_iterations() -> None:
    meter = LoopMeter(lambda _tenant, _seconds: None)
    iteration = 0
    ran: list[tuple[TenantId, int]] = []

    def count() -> None:
        nonlocal iteration
        iteration += 1
        asyncio.get_running_loop().call_soon(count)

    async def request(tenant: TenantId) -> None:
        ran.append((tenant, iteration))
        busy(ITERATION_SECONDS * 1.5)

    asyncio.get_running_loop().call_soon(count)
    requests = [meter.measured(A, request(A)) for _ in range(4)] + [meter.measured(B, request(B))]
    await asyncio.gather(*map(asyncio.ensure_future, requests))
    iterations = [at for tenant, at in ran if tenant == A]
    assert len(set(iterations)) == 4
    # The other tenant's request does not wait for all of them.
    assert dict(ran)[B] == iterations[0]


async def test_errors_and_cancellation_reach_the_request() -> None:
    meter = LoopMeter(lambda _tenant, _seconds: None)
    ended = asyncio.Event()

    async def request() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    task = asyncio.ensure_future(meter.measured(A, request()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled() and ended.is_set()
