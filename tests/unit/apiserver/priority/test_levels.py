"""The seats of a tenant's priority levels: nominal parts, lending, queues, rejection."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.errors import TooManyRequests
from alcove.apiserver.priority.levels import LevelConfig, LevelSeats, WaitingLimits, deal


def config(
    name: str,
    shares: int,
    *,
    lendable: int = 0,
    borrowing: int | None = None,
    queues: int = 0,
    length: int = 50,
    exempt: bool = False,
) -> LevelConfig:
    return LevelConfig(
        name, f"uid-{name}", exempt, shares, lendable, borrowing, queues, min(queues, 4), length
    )


def made(
    *configs: LevelConfig, seats: int = 100, waiting: int = 1000, limits: WaitingLimits | None = None
) -> LevelSeats:
    levels = LevelSeats(seats, limits or WaitingLimits(waiting, 10_000))
    levels.configure(configs)
    return levels


def taken(levels: LevelSeats, name: str, limit: int = 1000) -> int:
    """Takes single seats until the level has none left."""
    return sum(levels.try_acquire(levels.get(name), 1) for _ in range(limit))


async def next_iteration() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_nominal_seats_follow_shares() -> None:
    levels = made(config("a", 30), config("b", 10), config("c", 0))
    assert levels.nominal() == {"a": 75, "b": 25, "c": 0}


async def test_seats_that_are_not_lendable_stay_free_for_their_level() -> None:
    levels = made(config("a", 30), config("b", 10))
    assert taken(levels, "b") == 25
    assert taken(levels, "a") == 75


async def test_unused_lendable_seats_are_borrowed() -> None:
    levels = made(config("a", 50, lendable=50), config("b", 50))
    assert taken(levels, "b") == 75
    assert taken(levels, "a") == 25


async def test_borrowing_is_limited() -> None:
    levels = made(config("a", 50, lendable=100), config("b", 50, borrowing=10))
    assert taken(levels, "b") == 55


async def test_a_level_without_shares_or_anything_to_borrow_serves_nothing() -> None:
    levels = made(config("a", 100), config("jail", 0))
    assert taken(levels, "jail") == 0
    with pytest.raises(TooManyRequests, match='priority level "jail"'):
        await levels.acquire(levels.get("jail"), "flow", 1)


async def test_released_seats_are_free_in_the_next_iteration() -> None:
    levels = made(config("a", 1), seats=2)
    level = levels.get("a")
    assert levels.try_acquire(level, 2) == 2
    levels.release(level, 2)
    assert not levels.try_acquire(level, 1)
    await next_iteration()
    assert levels.try_acquire(level, 1) == 1


async def test_a_request_wider_than_its_level_is_served() -> None:
    levels = made(config("a", 10), config("b", 90))
    seats = await levels_acquire(levels, "a", 500)
    assert seats == 10
    levels.release(levels.get("a"), seats)
    await next_iteration()
    assert levels.is_idle


async def levels_acquire(levels: LevelSeats, name: str, width: int = 1, flow: str = "flow") -> int:
    level = levels.get(name)
    return levels.try_acquire(level, width) or await levels.acquire(level, flow, width)


async def test_a_level_without_queues_rejects() -> None:
    levels = made(config("a", 1), seats=1)
    assert taken(levels, "a") == 1
    with pytest.raises(TooManyRequests, match="all of its seats are in use"):
        await levels.acquire(levels.get("a"), "flow", 1)


async def test_flooding_flows_do_not_delay_others_of_their_level() -> None:
    levels = made(config("a", 1, queues=8), seats=1)
    level, served = levels.get("a"), list[str]()
    await levels_acquire(levels, "a")

    async def ask(flow: str) -> None:
        seats = await levels_acquire(levels, "a", flow=flow)
        served.append(flow)
        levels.release(level, seats)

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for _ in range(100):
            tasks.create_task(ask("flood"))
        await next_iteration()
        tasks.create_task(ask("quiet"))
        await next_iteration()
        levels.release(level, 1)
    # The flood is in at most four queues; the other flow waits behind one request of each, or in a queue of its own.
    assert served.index("quiet") <= 30
    assert levels.is_idle


async def test_full_queues_reject() -> None:
    levels = made(config("a", 1, queues=1, length=2), seats=1)
    taken(levels, "a")
    waiting = [asyncio.create_task(levels_acquire(levels, "a")) for _ in range(2)]
    await next_iteration()
    with pytest.raises(TooManyRequests, match="too many requests are waiting"):
        await levels_acquire(levels, "a")
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    levels.release(levels.get("a"), 1)
    await next_iteration()
    assert levels.is_idle


async def test_the_waiting_requests_of_a_tenant_are_bounded() -> None:
    levels = made(config("a", 1, queues=64), seats=1, waiting=3)
    taken(levels, "a")
    waiting = [asyncio.create_task(levels_acquire(levels, "a", flow=str(each))) for each in range(3)]
    await next_iteration()
    with pytest.raises(TooManyRequests, match="of the tenant"):
        await levels_acquire(levels, "a")
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_the_waiting_requests_of_all_tenants_are_bounded() -> None:
    limits = WaitingLimits(10, 2)
    ours, theirs = (made(config("a", 1, queues=4), seats=1, limits=limits) for _ in range(2))
    for levels in (ours, theirs):
        taken(levels, "a")
    waiting = [asyncio.create_task(levels_acquire(ours, "a")) for _ in range(2)]
    await next_iteration()
    with pytest.raises(TooManyRequests, match="are waiting"):
        await levels_acquire(theirs, "a")
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert limits.now == 0


async def test_requests_that_are_cancelled_leave_no_seats_behind() -> None:
    levels = made(config("a", 1, queues=2), seats=1)
    level = levels.get("a")
    taken(levels, "a")
    first, second = (asyncio.create_task(levels_acquire(levels, "a")) for _ in range(2))
    await next_iteration()
    levels.release(level, 1)
    # Cancelled in the same iteration in which it would be granted its seat.
    first.cancel()
    assert await second == 1
    levels.release(level, 1)
    await next_iteration()
    assert levels.is_idle


async def test_a_granted_request_that_is_cancelled_returns_its_seat() -> None:
    levels = made(config("a", 1, queues=2), seats=1)
    level = levels.get("a")
    taken(levels, "a")
    task = asyncio.create_task(levels_acquire(levels, "a"))
    await next_iteration()
    levels.release(level, 1)
    asyncio.get_running_loop().call_soon(task.cancel)
    await asyncio.gather(task, return_exceptions=True)
    if not task.cancelled():
        levels.release(level, 1)
    await next_iteration()
    assert levels.is_idle


async def test_a_lender_gets_its_seats_before_further_borrowers() -> None:
    levels = made(config("lender", 50, lendable=100, queues=4), config("borrower", 50, queues=4), seats=10)
    assert taken(levels, "borrower") == 10
    served: asyncio.Queue[str] = asyncio.Queue()

    async def ask(name: str) -> None:
        await levels_acquire(levels, name)
        served.put_nowait(name)

    tasks = [asyncio.create_task(ask(name)) for name in ["borrower"] * 5 + ["lender"] * 5]
    await next_iteration()
    for _ in range(5):
        levels.release(levels.get("borrower"), 1)
    async with asyncio.timeout(60):
        assert [await served.get() for _ in range(5)] == ["lender"] * 5
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_changed_configuration_keeps_the_count_of_seats() -> None:
    levels = made(config("a", 90), config("b", 10))
    wide = levels.try_acquire(levels.get("a"), 500)
    gone = levels.get("b")
    assert (wide, levels.try_acquire(gone, 5)) == (90, 5)
    levels.configure([config("a", 10), config("c", 90)])
    assert levels.nominal() == {"a": 10, "b": 0, "c": 90}
    assert taken(levels, "c") == 5
    levels.release(levels.get("a"), wide)
    levels.release(gone, 5)
    levels.release(levels.get("c"), 5)
    await next_iteration()
    assert levels.is_idle
    levels.configure([config("c", 1)])
    assert levels.nominal() == {"c": 100}


@given(st.text(max_size=20), st.integers(1, 64), st.data())
def test_a_hand_has_different_queues(flow: str, queues: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, min(queues, 8)))
    hand = deal(flow, queues, size)
    assert len(set(hand)) == size
    assert all(0 <= each < queues for each in hand)
    assert hand == deal(flow, queues, size)


_CONFIGS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 100), st.one_of(st.none(), st.integers(0, 200))),
    min_size=1,
    max_size=5,
)


@settings(max_examples=3 * settings().max_examples // 2, deadline=None)
@given(_CONFIGS, st.lists(st.tuples(st.integers(0, 4), st.integers(1, 40), st.booleans()), max_size=60))
def test_levels_never_take_more_than_the_tenant_has(
    configs: list[tuple[int, int, int | None]], steps: list[tuple[int, int, bool]]
) -> None:
    async def run() -> None:
        names = [str(each) for each in range(len(configs))]
        levels = made(
            *(
                config(name, shares, lendable=lendable, borrowing=borrowing)
                for name, (shares, lendable, borrowing) in zip(names, configs, strict=True)
            )
        )
        held: list[tuple[str, int]] = []
        for index, width, releases in steps:
            if releases and held:
                name, seats = held.pop()
                levels.release(levels.get(name), seats)
                await next_iteration()
                continue
            name = names[index % len(names)]
            if seats := levels.try_acquire(levels.get(name), width):
                held.append((name, seats))
            level = levels.get(name)
            assert level.held <= max(level.maximum, 1)
            assert sum(seats for _, seats in held) <= 100
        for name, seats in held:
            levels.release(levels.get(name), seats)
        await next_iteration()
        assert levels.is_idle

    asyncio.run(run())
