"""The queue's laws: every key is handed out, each to one worker at a time, in fair turns, none forgotten."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.ids import TenantId
from alcove.client.keys import HOME, ObjectKey, PlaneId, TenantKey
from alcove.controllers import queue as queues
from alcove.controllers.queue import WorkQueue
from alcove.testing.clock import VirtualClock


def key(tenant: str, name: str, plane: PlaneId = HOME) -> ObjectKey:
    return ObjectKey(plane, TenantId(tenant), "default", name)


def run(
    scenario: Callable[[WorkQueue], Awaitable[None]], in_hand_max: int = 10, waiting_max: int = 1_000
) -> None:
    async def body() -> None:
        queue = WorkQueue(
            workers=64,
            processing_per_plane_max=2,
            processing_per_tenant_max=in_hand_max,
            waiting_per_tenant_max=waiting_max,
        )
        await scenario(queue)
        queue.close()

    VirtualClock().run(body())


def test_a_key_added_often_is_handed_out_once() -> None:
    async def scenario(queue: WorkQueue) -> None:
        for _ in range(5):
            queue.add(key("a", "x"))
        assert (await queue.take()).key == key("a", "x")
        queue.done(key("a", "x"))
        assert (queue.depth, queue.processing) == (0, 0)

    run(scenario)


def test_a_key_added_while_in_hand_waits_until_it_is_done() -> None:
    async def scenario(queue: WorkQueue) -> None:
        queue.add(key("a", "x"))
        await queue.take()
        queue.add(key("a", "x"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await queue.take()
        queue.done(key("a", "x"))
        assert (await queue.take()).key == key("a", "x")

    run(scenario)


def test_a_flood_delays_another_tenants_key_by_one_turn() -> None:
    async def scenario(queue: WorkQueue) -> None:
        for number in range(100_000):
            queue.add(key("greedy", str(number)))
        queue.add(key("small", "one"))
        taken = [(await queue.take()).key.tenant for _ in range(2)]
        assert taken == ["greedy", "small"]

    run(scenario, waiting_max=200_000)


def test_planes_with_tenants_of_the_same_name_are_two_parties() -> None:
    async def scenario(queue: WorkQueue) -> None:
        other = PlaneId("a")
        for number in range(3):
            queue.add(key("a", str(number)))
        queue.add(key("a", "0", other))
        taken = [(await queue.take()).key for _ in range(2)]
        assert {each.plane for each in taken} == {HOME, other}

    run(scenario)


def test_a_tenant_never_has_all_the_workers() -> None:
    async def scenario(queue: WorkQueue) -> None:
        for number in range(5):
            queue.add(key("slow", str(number)))
        first = [(await queue.take()).key for _ in range(2)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await queue.take()
        queue.add(key("other", "x"))
        assert (await queue.take()).key.tenant == "other"
        queue.done(first[0])
        assert (await queue.take()).key.tenant == "slow"

    run(scenario, in_hand_max=2)


def test_of_several_delays_the_earliest_counts() -> None:
    async def scenario(queue: WorkQueue) -> None:
        loop = asyncio.get_running_loop()
        for seconds in (60, 5, 30):
            queue.add_after(key("a", "x"), seconds)
        await queue.take()
        assert loop.time() == pytest.approx(5)
        queue.done(key("a", "x"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1_000):
                await queue.take()

    run(scenario)


def test_an_add_takes_the_place_of_a_delay() -> None:
    async def scenario(queue: WorkQueue) -> None:
        queue.add_after(key("a", "x"), 60)
        queue.add(key("a", "x"))
        assert queue.delayed == 0
        await queue.take()
        queue.done(key("a", "x"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1_000):
                await queue.take()

    run(scenario)


def test_backoff_doubles_up_to_its_bound_and_is_forgotten() -> None:
    async def scenario(queue: WorkQueue) -> None:
        waits = [queue.add_failed(key("a", "x")) for _ in range(40)]
        assert waits[:3] == [
            queues.BACKOFF_SECONDS_MIN,
            2 * queues.BACKOFF_SECONDS_MIN,
            4 * queues.BACKOFF_SECONDS_MIN,
        ]
        assert waits[-1] == queues.BACKOFF_SECONDS_MAX
        queue.forget(key("a", "x"))
        assert queue.add_failed(key("a", "x")) == queues.BACKOFF_SECONDS_MIN

    run(scenario)


def test_nothing_is_kept_of_delays_that_are_not_waited_for_any_more() -> None:
    async def scenario(queue: WorkQueue) -> None:
        for number in range(100):
            queue.add_after(key("a", f"kept{number}"), 3_600)
        for number in range(1_000):
            queue.add_after(key("b", f"x{number}"), 3_600)
            queue.add_after(key("b", f"x{number}"), 1_800)
            queue.add(key("b", f"x{number}"))
            queue.done((await queue.take()).key)
        assert queue.delayed == 100 and len(queue._delayed) <= 200
        assert {each.tenant for each in queue._delayed_keys.values()} == {"a"}
        for number in range(100):
            queue.add(key("a", f"kept{number}"))
        assert not queue._delayed and queue.delayed == 0

    run(scenario)


def test_overflow_is_made_up_for_when_the_tenant_has_nothing_left() -> None:
    async def body() -> None:
        everything = [key("a", str(number)) for number in range(50)]

        def refill(tenant_key: TenantKey) -> None:
            assert tenant_key == TenantKey(HOME, TenantId("a"))
            for each in everything:
                queue.add(each)

        queue = WorkQueue(
            workers=64,
            processing_per_plane_max=2,
            processing_per_tenant_max=4,
            waiting_per_tenant_max=8,
            refill=refill,
        )
        seen: set[ObjectKey] = set()
        for each in everything:
            queue.add(each)
        assert queue.depth == 8
        for _ in range(2_000):
            if not queue.depth:
                break
            taken = (await queue.take()).key
            if taken not in seen:
                seen.add(taken)
                everything.remove(taken)
            queue.done(taken)
        assert len(seen) == 50 and not everything

    VirtualClock().run(body())


def test_a_cancelled_taker_loses_nothing() -> None:
    async def scenario(queue: WorkQueue) -> None:
        first, second = (asyncio.create_task(queue.take()) for _ in range(2))
        await asyncio.sleep(0)
        queue.add(key("a", "x"))
        first.cancel()
        assert (await second).key == key("a", "x")

    run(scenario)


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "later", "fail", "take", "done", "pass"]), st.integers(0, 11)),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_nothing_is_lost_and_nothing_is_with_two_workers(steps: list[tuple[str, int]]) -> None:
    async def scenario(queue: WorkQueue) -> None:
        wanted: set[ObjectKey] = set()
        processing: list[ObjectKey] = []
        for step, number in steps:
            chosen = key(f"t{number % 3}", str(number))
            match step:
                case "add":
                    queue.add(chosen)
                    wanted.add(chosen)
                case "later":
                    queue.add_after(chosen, number + 1)
                    wanted.add(chosen)
                case "fail":
                    queue.add_failed(chosen)
                    wanted.add(chosen)
                case "take" if queue._round:
                    taken = (await queue.take()).key
                    assert taken not in processing
                    processing.append(taken)
                    wanted.discard(taken)
                case "done" if processing:
                    queue.done(processing.pop(number % len(processing)))
                case "pass":
                    await asyncio.sleep(number)
            assert max(Counter(each.tenant for each in processing).values(), default=0) <= 2
        while processing:
            queue.done(processing.pop())
        while wanted:
            async with asyncio.timeout(10_000):
                taken = (await queue.take()).key
            wanted.discard(taken)
            queue.done(taken)

    run(scenario, in_hand_max=2)


def test_a_delay_that_is_over_at_once_does_not_break_uvloops_timer() -> None:
    """Its handle of a past time is not a timer's: it has no `when`."""

    async def body() -> None:
        queue = WorkQueue(workers=64, processing_per_plane_max=2, processing_per_tenant_max=1)
        keys = [ObjectKey(HOME, TenantId("a"), "", name) for name in ("one", "two", "three")]
        for key in keys:
            queue.add_after(key, 1e-9)
        assert {(await queue.take()).key} <= set(keys)
        queue.close()

    uvloop.run(body())


def test_planes_that_do_not_respond_occupy_no_worker_of_others() -> None:
    async def scenario(queue: WorkQueue) -> None:
        planes = [PlaneId(f"hung-{number}") for number in range(100)]
        for plane in planes:
            for number in range(5):
                queue.add(key(plane, str(number), plane))
        held = [(await queue.take()).key for _ in range(2 * len(planes))]
        assert max(Counter(each.plane for each in held).values()) == 2
        for number in range(3):
            queue.add(key("good", str(number)))
            queue.add(key("other", str(number)))
        taken = {(await queue.take()).key for _ in range(6)}
        assert {each.tenant for each in taken} == {"good", "other"}
        queue.done(held[0])
        assert (await queue.take()).key.plane == held[0].plane

    run(scenario)


def test_workers_are_shared_by_the_tenants_of_the_home_plane() -> None:
    async def scenario(queue: WorkQueue) -> None:
        for number in range(100):
            queue.add(key(f"t{number}", "x"))
        held = [(await queue.take()).key for _ in range(64)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await queue.take()
        waiting = asyncio.create_task(queue.take())
        await asyncio.sleep(0)
        queue.done(held[0])
        async with asyncio.timeout(10):
            assert (await waiting).key not in held

    run(scenario)
