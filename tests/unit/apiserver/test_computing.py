import asyncio
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from alcove.api.cel.budget import Allowance, CostBudget
from alcove.api.cel.errors import LongEvaluation
from alcove.api.errors import TooLarge, TooManyRequests
from alcove.api.ids import TenantId
from alcove.apiserver.computing import (
    INLINE_COST,
    LARGE_BYTES,
    QUEUE_PER_TENANT_MAX,
    SWITCH_SECONDS,
    ComputeThreads,
    on_loop,
)

A, B = TenantId("a"), TenantId("b")


def spin(until: Callable[[], bool]) -> None:
    """Use the CPU until something is so; can be stopped."""
    while not until():
        pass


def evaluate(units: int) -> int:
    """Spend units as an expression does."""
    budget = CostBudget(1_000_000)
    for _ in range(units // 10):
        budget.spend(10)
    budget.close()
    return threading.get_ident()


async def test_the_result_and_the_error_arrive() -> None:
    threads = ComputeThreads()
    assert await threads.run(A, threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await threads.run(A, lambda: 1 // 0)


async def test_small_computations_stay_on_the_loop() -> None:
    threads, here = ComputeThreads(), threading.get_ident()
    assert await threads.for_size(A, LARGE_BYTES - 1, threading.get_ident) == here
    assert await threads.for_size(A, LARGE_BYTES, threading.get_ident) != here


async def test_long_evaluations_are_repeated_in_a_thread() -> None:
    threads, here = ComputeThreads(), threading.get_ident()
    assert await threads.for_size(A, 0, lambda: evaluate(INLINE_COST // 2)) == here
    assert await threads.for_size(A, 0, lambda: evaluate(INLINE_COST * 2)) != here


async def test_the_loop_runs_while_a_thread_computes() -> None:
    threads, done = ComputeThreads(), threading.Event()
    before = sys.getswitchinterval()
    task = asyncio.create_task(threads.run(A, lambda: spin(done.is_set)))
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    assert not task.done()
    done.set()
    await task
    assert sys.getswitchinterval() == pytest.approx(before)


async def test_one_computation_runs_at_a_time() -> None:
    threads = ComputeThreads()
    running = most = 0

    def compute() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.002)
        running -= 1

    await asyncio.gather(*(threads.run(TenantId(f"t{index}"), compute) for index in range(10)))
    assert most == 1


async def test_an_evaluation_makes_room_for_other_tenants() -> None:
    threads, done = ComputeThreads(), threading.Event()

    def evaluate_until_done() -> None:
        while not done.is_set():
            evaluate(10_000)

    long = asyncio.create_task(threads.run(A, evaluate_until_done))
    queued = asyncio.create_task(threads.run(A, lambda: None))
    async with asyncio.timeout(60):
        await threads.run(B, lambda: None)
    # Those of the same tenant wait for their turn.
    assert not long.done() and not queued.done()
    done.set()
    await asyncio.gather(long, queued)


async def test_a_tenant_that_used_less_is_next() -> None:
    order: list[TenantId] = []
    charged: dict[TenantId, float] = {}
    threads = ComputeThreads(charge=lambda tenant, seconds: charged.update({tenant: seconds}))
    await threads.run(A, lambda: spin(lambda: time.thread_time() >= 0.05))
    assert charged[A] >= 0.04
    begun = threading.Event()
    first = asyncio.create_task(threads.run(TenantId("c"), begun.wait))
    await asyncio.sleep(0)
    others = [asyncio.create_task(threads.run(tenant, partial(order.append, tenant))) for tenant in (A, B)]
    await asyncio.sleep(0)
    begun.set()
    await asyncio.gather(first, *others)
    assert order == [B, A]


async def test_a_computation_that_takes_too_long_is_stopped() -> None:
    threads = ComputeThreads(seconds_max=0.05)
    with pytest.raises(TooLarge, match="time limit"):
        await threads.run(A, lambda: spin(lambda: False))
    assert await threads.run(A, lambda: 1) == 1


async def test_a_cancelled_request_stops_its_computation() -> None:
    threads, begun, stopped = ComputeThreads(), threading.Event(), threading.Event()

    def compute() -> None:
        try:
            begun.set()
            spin(lambda: False)
        finally:
            stopped.set()

    task = asyncio.create_task(threads.run(A, compute))
    queued = asyncio.create_task(threads.run(A, lambda: None))
    assert await asyncio.to_thread(begun.wait, 60)
    queued.cancel()
    task.cancel()
    await asyncio.gather(task, queued, return_exceptions=True)
    assert await asyncio.to_thread(stopped.wait, 60)
    assert await threads.run(A, lambda: 1) == 1


async def test_a_tenants_queue_is_bounded() -> None:
    threads, done = ComputeThreads(), threading.Event()
    tasks = [asyncio.create_task(threads.run(A, done.wait)) for _ in range(QUEUE_PER_TENANT_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequests):
        await threads.run(A, lambda: None)
    done.set()
    await asyncio.gather(*tasks)
    assert await threads.run(B, lambda: 2) == 2


async def test_a_computation_asks_what_only_the_loop_may_read() -> None:
    threads, loop, here = ComputeThreads(), asyncio.get_running_loop(), threading.get_ident()
    assert on_loop(loop, threading.get_ident) == here
    assert await threads.run(A, lambda: on_loop(loop, threading.get_ident)) == here
    with pytest.raises(ZeroDivisionError):
        await threads.run(A, lambda: on_loop(loop, lambda: 1 // 0))


def test_nested_evaluations_draw_from_one_allowance() -> None:
    with Allowance(4_000):
        outer, inner = CostBudget(), CostBudget()
        outer.spend(1_500)
        inner.spend(1_500)
        inner.close()
        outer.close()
        again = CostBudget()
        again.spend(900)
        with pytest.raises(LongEvaluation):
            again.spend(200)
