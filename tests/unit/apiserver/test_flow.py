import asyncio
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from alcove.api.errors import TooManyRequests
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.objects import Object
from alcove.apiserver import flow as flow_module
from alcove.apiserver.flow import (
    DEBT_SEATS_MAX,
    SEAT_TIME,
    WEIGHT_MAX,
    FlowController,
    FlowLimits,
    weights,
    width,
)
from alcove.testing.memory_reader import MemoryReader

A, B, C = TenantId("a"), TenantId("b"), TenantId("c")
SMALL = FlowLimits(
    seats=10,
    seats_per_tenant=8,
    seats_of_system=2,
    first_requests_max=0,
    queue_per_tenant_max=50,
    queued_max=100,
    wait_seconds_max=5.0,
)


class Crowd:
    """Requests to one flow controller, each held until it is released, and the order in which they were
    admitted."""

    def __init__(self, flow: FlowController) -> None:
        self.flow = flow
        self.served: list[tuple[TenantId, int]] = []
        self.gates: list[asyncio.Event] = []
        self.tasks: list[asyncio.Task[None]] = []

    def send(self, tenant: TenantId, width: int = 1, *, held: bool = False) -> asyncio.Task[None]:
        task = asyncio.create_task(self._request(tenant, width, held))
        self.tasks.append(task)
        return task

    async def _request(self, tenant: TenantId, width: int, held: bool) -> None:
        async with self.flow.seat(tenant, width=width):
            self.served.append((tenant, width))
            if held:
                gate = asyncio.Event()
                self.gates.append(gate)
                await gate.wait()

    def release(self, count: int | None = None) -> None:
        going, self.gates = self.gates[:count], self.gates[count or len(self.gates) :]
        for gate in going:
            gate.set()

    async def finish(self) -> None:
        async with asyncio.timeout(60):
            while not all(task.done() for task in self.tasks):
                self.release()
                await asyncio.sleep(0)


async def run_loop(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def no_seat_is_lost(flow: FlowController) -> bool:
    return (flow.in_use, flow.waiting, flow._free + flow._spent) == (0, 0, flow.limits.seats)


async def test_free_seats_are_taken_without_waiting() -> None:
    flow = FlowController(SMALL)
    assert flow.try_acquire(A, 3)
    assert flow.in_use == 3
    flow.release(A, 3)
    assert flow.in_use == 0


async def test_tenant_alone_has_most_seats_but_not_all() -> None:
    flow = FlowController(SMALL)
    assert flow.try_acquire(A, 8)
    assert not flow.try_acquire(A, 1)
    assert not flow.try_acquire(B, 1), "the last two are ring0's"
    assert flow.try_acquire(SYSTEM, 2)
    assert flow.in_use == 10


async def test_seats_given_back_are_free_from_the_next_turn_on() -> None:
    flow = FlowController(SMALL)
    crowd = Crowd(flow)
    for _ in range(20):
        crowd.send(A)
    await asyncio.sleep(0)
    assert len(crowd.served) == 8, "a turn never does more than all seats' work"
    await crowd.finish()
    assert len(crowd.served) == 20
    assert no_seat_is_lost(flow)


async def test_request_wider_than_a_tenant_may_be_is_narrowed_to_that() -> None:
    flow = FlowController(SMALL)
    assert flow.try_acquire(A, 1_000)
    assert flow.in_use == 8
    flow.release(A, 1_000)
    assert flow.in_use == 0


async def test_flood_delays_a_neighbour_by_one_turn_at_most() -> None:
    crowd = Crowd(FlowController(SMALL))
    for _ in range(40):
        crowd.send(A, 4)
    await asyncio.sleep(0)
    before = len(crowd.served)
    await crowd.send(B, 1)
    overtaking = crowd.served[before : crowd.served.index((B, 1))]
    assert sum(width for _, width in overtaking) <= SMALL.seats
    await crowd.finish()


async def test_the_first_request_of_a_quiet_tenant_waits_for_nobody() -> None:
    flow = FlowController(structs.replace(SMALL, first_requests_max=2))
    crowd = Crowd(flow)
    for _ in range(40):
        crowd.send(A, 4)
    await asyncio.sleep(0)
    assert flow.waiting
    assert flow.try_acquire(B) and flow.try_first(C), "all seats are taken, and others wait"
    flow.release(B)
    assert not flow.try_acquire(B), "its second one in the same iteration waits"
    assert not flow.try_acquire(TenantId("d")), "so does that of a third tenant"
    flow.release(C)
    await crowd.finish()
    assert no_seat_is_lost(flow)


async def test_a_tenant_that_had_more_than_others_waits_also_with_its_first_request() -> None:
    flow = FlowController(structs.replace(SMALL, first_requests_max=2))
    crowd = Crowd(flow)
    assert flow.try_acquire(B)
    flow.charge(B, 1.0, is_on_loop=False)
    flow.release(B)
    for _ in range(4):
        crowd.send(A, 4)
    await asyncio.sleep(0)
    assert not flow.try_acquire(B)
    assert not flow.try_acquire(A), "it has requests that wait"
    assert not flow.try_first(C, 3), "a large request"
    await crowd.finish()


async def test_narrow_request_goes_before_wide_ones_that_came_first() -> None:
    crowd = Crowd(FlowController(SMALL))
    crowd.send(A, 8, held=True)
    await run_loop()
    for tenant, seats in ((A, 8), (A, 8), (B, 8), (C, 1)):
        crowd.send(tenant, seats)
    await run_loop()
    crowd.release()
    await crowd.finish()
    assert crowd.served[1] == (C, 1)


async def test_wide_request_is_not_starved_by_narrow_ones() -> None:
    crowd = Crowd(FlowController(SMALL))
    for _ in range(8):
        crowd.send(A, held=True)
    await run_loop()
    wide = crowd.send(B, 8)
    for _ in range(40):
        crowd.send(A, held=True)
    for _ in range(100):
        await run_loop(2)
        crowd.release(2)
        if wide.done():
            break
    assert crowd.served.index((B, 8)) <= 8 + 8
    await crowd.finish()


async def test_waiting_for_own_seats_does_not_hold_up_others() -> None:
    crowd = Crowd(FlowController(FlowLimits(seats=20, seats_per_tenant=8, seats_of_system=2)))
    for _ in range(20):
        crowd.send(A, held=True)
    await run_loop()
    assert crowd.served == [(A, 1)] * 8
    assert crowd.flow.try_acquire(B, 4)
    crowd.flow.release(B, 4)
    await crowd.finish()
    assert no_seat_is_lost(crowd.flow)


async def test_ring0_has_its_share_however_many_wait() -> None:
    flow = FlowController(SMALL)
    crowd = Crowd(flow)
    for tenant in (A, B, C):
        for _ in range(20):
            crowd.send(tenant, 2, held=True)
    await run_loop()
    assert flow.waiting > 0
    assert flow.try_acquire(SYSTEM, 2)
    assert not flow.try_acquire(SYSTEM, 1)
    late = crowd.send(SYSTEM, 2)
    await run_loop()
    assert not late.done()
    flow.release(SYSTEM, 2)
    await run_loop()
    assert late.done()
    await crowd.finish()
    assert no_seat_is_lost(flow)


async def test_full_queue_rejects_with_retry_after() -> None:
    flow = FlowController(SMALL)
    crowd = Crowd(flow)
    for _ in range(8 + 50):
        crowd.send(A, held=True)
    await run_loop()
    with pytest.raises(TooManyRequests, match='too many requests of tenant "a"') as caught:
        await flow.acquire(A)
    assert caught.value.details is not None
    assert caught.value.details.retry_after_seconds == 1
    assert flow.rejected_full == 1
    await crowd.finish()


async def test_all_queues_together_are_bounded() -> None:
    flow = FlowController(SMALL)
    crowd = Crowd(flow)
    for tenant in (A, B, C):
        for _ in range(40):
            crowd.send(tenant, held=True)
    await run_loop()
    assert flow.waiting == 100
    await run_loop()
    assert flow.rejected_full == 120 - 8 - 100
    for task in crowd.tasks:
        task.cancel()
    await asyncio.gather(*crowd.tasks, return_exceptions=True)
    await run_loop()
    assert no_seat_is_lost(flow)


async def test_waiting_too_long_rejects_with_retry_after() -> None:
    now = 100.0
    flow = FlowController(SMALL, clock=lambda: now)
    crowd = Crowd(flow)
    crowd.send(A, 8, held=True)
    await run_loop()
    early = crowd.send(A)
    await run_loop()
    now = 103.0
    late = crowd.send(A)
    await run_loop()
    now = 105.0
    flow.expire()
    await run_loop()
    assert isinstance(early.exception(), TooManyRequests)
    assert not late.done()
    assert (flow.rejected_late, flow.waiting) == (1, 1)
    await asyncio.gather(early, return_exceptions=True)
    crowd.tasks.remove(early)
    await crowd.finish()
    assert no_seat_is_lost(flow)


async def test_a_waiting_request_times_out_by_itself() -> None:
    flow = FlowController(FlowLimits(seats=10, seats_per_tenant=8, seats_of_system=2, wait_seconds_max=0.01))
    assert flow.try_acquire(A, 8)
    async with asyncio.timeout(60):
        with pytest.raises(TooManyRequests):
            await flow.acquire(A)


@pytest.mark.parametrize("granted_first", [False, True])
async def test_cancelled_request_leaves_no_seat_behind(granted_first: bool) -> None:
    flow = FlowController(SMALL)
    assert flow.try_acquire(A, 8)
    waiting = asyncio.create_task(flow.acquire(A, 4))
    await run_loop()
    if granted_first:
        flow.release(A, 8)
        while flow.waiting:
            flow._start_iteration()
        waiting.cancel()
    else:
        waiting.cancel()
        await run_loop()
        flow.release(A, 8)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await run_loop()
    assert no_seat_is_lost(flow)


async def test_idle_tenants_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_module, "IDLE_TENANTS_KEPT_MAX", 10)
    flow = FlowController(SMALL)
    for n in range(100):
        async with flow.seat(TenantId(f"t{n}")):
            pass
    assert len(flow._shares) <= 11


async def test_waits_are_observed() -> None:
    now = 1.0
    waits: list[float] = []
    flow = FlowController(SMALL, clock=lambda: now, on_wait=waits.append)
    assert flow.try_acquire(A, 8)
    waiting = asyncio.create_task(flow.acquire(A))
    await run_loop()
    now = 3.5
    flow.release(A, 8)
    await waiting
    assert waits == [2.5]


def test_width_grows_with_objects_and_bytes() -> None:
    assert width() == 1
    assert width(objects=5_000) > width(objects=500) > width(objects=100) > 1
    assert width(size_bytes=3 << 20) > 50


widths = st.lists(st.integers(1, 5), min_size=30, max_size=30)


@settings(max_examples=40, deadline=None)
@given(st.lists(widths, min_size=2, max_size=4), st.integers(0, 3))
def test_backlogged_tenants_are_served_equally_within_one_request(
    backlog: list[list[int]], held: int
) -> None:
    async def scenario() -> None:
        limits = FlowLimits(seats=12, seats_per_tenant=11, seats_of_system=1, first_requests_max=0)
        crowd = Crowd(FlowController(limits))
        crowd.send(TenantId("z"), 11, held=True)
        await run_loop()
        tenants = [TenantId(f"t{n}") for n in range(len(backlog))]
        left = {tenant: list(widths) for tenant, widths in zip(tenants, backlog, strict=True)}
        for tenant, widths in left.items():
            for n, requested_width in enumerate(widths):
                crowd.send(tenant, requested_width, held=n % 4 < held)
        await run_loop()
        assert len(crowd.served) == 1
        await crowd.finish()
        totals = dict.fromkeys(tenants, 0)
        for tenant, width_served in crowd.served[1:]:
            totals[tenant] += width_served
            assert left[tenant].pop(0) == width_served, "first come, first served, within a tenant"
            if not all(left.values()):
                break
            assert max(totals.values()) - min(totals.values()) <= 5

    asyncio.run(scenario())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(widths, st.integers(1, 7)), min_size=2, max_size=4), st.integers(0, 3))
def test_backlogged_tenants_are_served_by_their_weights_within_one_request(
    backlogs: list[tuple[list[int], int]], held: int
) -> None:
    async def scenario() -> None:
        weight_of = {TenantId(f"t{n}"): weight for n, (_, weight) in enumerate(backlogs)}
        limits = FlowLimits(seats=12, seats_per_tenant=11, seats_of_system=1, first_requests_max=0)
        crowd = Crowd(FlowController(limits, weight=lambda tenant: weight_of.get(tenant, 1)))
        crowd.send(TenantId("z"), 11, held=True)
        await run_loop()
        left = {tenant: list(widths) for tenant, (widths, _) in zip(weight_of, backlogs, strict=True)}
        for tenant, widths in left.items():
            for n, requested_width in enumerate(widths):
                crowd.send(tenant, requested_width, held=n % 4 < held)
        await run_loop()
        assert len(crowd.served) == 1
        await crowd.finish()
        totals = dict.fromkeys(weight_of, 0.0)
        for tenant, width_served in crowd.served[1:]:
            totals[tenant] += width_served / weight_of[tenant]
            left[tenant].pop(0)
            if not all(left.values()):
                break
            for one, other in combinations(weight_of, 2):
                # Each may be ahead of the other by one request.
                most = 5 / min(weight_of[one], weight_of[other]) + 0.001
                assert abs(totals[one] - totals[other]) <= most

    asyncio.run(scenario())


@pytest.mark.parametrize("weight", [WEIGHT_MAX, 2**31 - 1])
async def test_a_heavy_tenant_never_keeps_a_light_one_out(weight: int) -> None:
    limits = FlowLimits(seats=12, seats_per_tenant=10, seats_of_system=2, queue_per_tenant_max=10_000)
    crowd = Crowd(FlowController(limits, weight=lambda tenant: weight if tenant == A else 1))
    for _ in range(5 * WEIGHT_MAX):
        crowd.send(A)
    await asyncio.sleep(0)
    before = len(crowd.served)
    await crowd.send(B)
    assert crowd.served.index((B, 1)) - before <= WEIGHT_MAX + limits.seats
    await crowd.finish()


@pytest.mark.parametrize(("spec", "weight"), [({"weight": 7}, 7), ({}, 1), (None, 1)])
def test_a_tenants_weight_is_its_objects(spec: Object | None, weight: int) -> None:
    reader = MemoryReader()
    if spec is not None:
        reader.put(SYSTEM, GroupResource("", "tenants"), {"metadata": {"name": "a"}, "spec": spec})
    assert weights(reader)(A) == weight


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([A, B, C, SYSTEM]),
            st.integers(1, 12),
            st.booleans(),
            st.sampled_from(["run", "cancel"]),
        ),
        max_size=60,
    )
)
def test_seats_are_never_exceeded_nor_lost(requests: list[tuple[TenantId, int, bool, str]]) -> None:
    async def scenario() -> None:
        flow = FlowController(SMALL)
        crowd = Crowd(flow)
        for n, (tenant, requested_width, held, outcome) in enumerate(requests):
            task = crowd.send(tenant, requested_width, held=held)
            if n % 3 == 0:
                await asyncio.sleep(0)
            if outcome == "cancel":
                task.cancel()
            assert flow.in_use <= SMALL.seats
            assert all(share.held <= SMALL.seats_per_tenant for share in flow._shares.values())
            assert flow.in_use - flow._system.held <= SMALL.seats - SMALL.seats_of_system
            if n % 5 == 0:
                crowd.release(2)
        await crowd.finish()
        await run_loop()
        assert no_seat_is_lost(flow)

    asyncio.run(scenario())


async def test_a_tenant_with_costly_requests_waits_behind_others() -> None:
    flow = FlowController(SMALL)
    crowd = Crowd(flow)
    blocker = crowd.send(C, width=8, held=True)
    await run_loop()
    for _ in range(3):
        crowd.send(A, width=4)
        crowd.send(B, width=4)
    await run_loop()
    flow.charge(A, 0.01, is_on_loop=False)
    crowd.release()
    await crowd.finish()
    assert blocker.done()
    assert [tenant for tenant, _ in crowd.served[1:4]] == [B, B, B]


async def test_time_on_the_loop_takes_seats_of_the_iteration() -> None:
    flow = FlowController(FlowLimits())
    assert flow.try_acquire(A)
    flow.charge(A, 0.03)
    assert not flow.try_acquire(A)
    async with asyncio.timeout(60):
        await flow.acquire(A)
    assert flow.in_use == 2


def test_the_debt_of_a_tenant_is_bounded() -> None:
    flow = FlowController(SMALL)
    assert flow.try_acquire(A)
    for _ in range(100):
        flow.charge(A, 10.0, is_on_loop=False)
    assert flow._shares[A].virtual_time <= DEBT_SEATS_MAX * SEAT_TIME


async def test_a_tenant_that_asks_for_little_is_served_in_every_iteration_that_is_late() -> None:
    flow = FlowController(FlowLimits())
    for _ in range(20):
        assert flow.try_first(B), "nobody waits, and it had little"
        flow.release(B)
        await asyncio.sleep(0)
    flow.charge(B, 0.03)
    assert not flow.try_first(B), "it had enough to be why the loop is late"
    assert flow.try_first(A)
    flow.release(A)
