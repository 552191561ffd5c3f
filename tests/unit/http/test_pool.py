"""Idle connections: the most recently used is taken first; old, closed and excess ones are closed."""

import asyncio

from alcove.http.pool import IdleConnections, PoolLimits


class Connection:
    def __init__(self) -> None:
        self.is_reusable = True

    def abort(self) -> None:
        self.is_reusable = False


def pool(**limits: float) -> IdleConnections[str, Connection]:
    given = {"per_target_max": 3, "total_max": 4, "idle_seconds_max": 30.0, **limits}
    return IdleConnections(PoolLimits(**given))  # type: ignore[arg-type]


async def test_the_one_used_last_is_taken_first() -> None:
    idle, (first, second) = pool(), (Connection(), Connection())
    idle.put("a", first)
    idle.put("a", second)
    assert idle.take("b") is None
    assert [idle.take("a"), idle.take("a"), idle.take("a")] == [second, first, None]
    idle.close()


async def test_there_are_never_more_than_allowed() -> None:
    idle = pool()
    connections = {target: [Connection() for _ in range(4)] for target in "ab"}
    for target, each in connections.items():
        for connection in each:
            idle.put(target, connection)
    assert [[each.is_reusable for each in connections[target]] for target in "ab"] == [
        [True, True, True, False],
        [True, False, False, False],
    ]
    assert len(idle) == 4
    idle.close()
    assert len(idle) == 0 and not any(each.is_reusable for each in connections["a"])


async def test_an_owner_has_a_share_and_the_largest_makes_room_for_others() -> None:
    limits = PoolLimits(per_target_max=2, total_max=6, per_owner_max=5, idle_seconds_max=30.0)
    idle: IdleConnections[str, Connection] = IdleConnections(limits, lambda target: target[0])
    greedy = [Connection() for _ in range(8)]
    for number, connection in enumerate(greedy):
        idle.put(f"a{number // 2}", connection)
    assert [each.is_reusable for each in greedy] == [True] * 5 + [False] * 3
    quiet = [Connection() for _ in range(4)]
    for number, connection in enumerate(quiet):
        idle.put(f"b{number}", connection)
    assert [each.is_reusable for each in quiet] == [True, True, True, False], "half of the pool"
    assert [each.is_reusable for each in greedy] == [False] * 2 + [True] * 3 + [False] * 3
    assert len(idle) == 6
    assert idle.take("b0") is quiet[0]
    assert idle.take("a0") is None
    idle.put("a0", Connection())
    assert len(idle) == 6
    idle.close()
    assert len(idle) == 0


async def test_one_that_was_closed_meanwhile_is_not_taken() -> None:
    idle, (first, second) = pool(), (Connection(), Connection())
    idle.put("a", first)
    idle.put("a", second)
    second.abort()
    assert idle.take("a") is first
    idle.put("a", second)
    assert len(idle) == 0
    idle.close()


async def test_idle_connections_are_closed_after_a_while() -> None:
    idle, connection = pool(idle_seconds_max=0.05), Connection()
    idle.put("a", connection)
    async with asyncio.timeout(60):
        while len(idle):  # noqa: ASYNC110 - closing sends no notification
            await asyncio.sleep(0.01)
    assert not connection.is_reusable


async def test_connections_of_a_burst_are_closed_soon() -> None:
    idle, connections = pool(kept=1, spare_seconds_max=0.05), [Connection() for _ in range(3)]
    for connection in connections:
        idle.put("a", connection)
    async with asyncio.timeout(60):
        while len(idle) > 1:  # noqa: ASYNC110 - closing sends no notification
            await asyncio.sleep(0.01)
    assert [each.is_reusable for each in connections] == [False, False, True]
    await asyncio.sleep(0.1)
    assert idle.take("a") is connections[2]
    idle.close()
