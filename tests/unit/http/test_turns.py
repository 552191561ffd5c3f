"""Groups of connections share the loop's time: whoever sends much waits, and nobody else does."""

import asyncio
from time import perf_counter

from alcove.http.turns import READING_SECONDS, ReadingTurns, Turns


class Reader:
    """Takes so many seconds to read what it has received."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.reads = 0
        self.is_waiting = False

    def read_now(self) -> None:
        self.is_waiting = False
        self.reads += 1
        until = perf_counter() + self._seconds
        while perf_counter() < until:
            pass

    def read_later(self) -> None:
        self.is_waiting = True


async def test_turns_go_round_between_groups_and_within_each() -> None:
    done: list[str] = []
    turns: Turns[str] = Turns(60.0, done.append)
    for member in ("a1", "a2", "a3", "b1", "b2", "c1"):
        turns.add(member[0], member)
    await asyncio.sleep(0)
    assert done == ["a1", "b1", "c1", "a2", "b2", "a3"]


async def test_turns_end_with_the_time_of_an_iteration() -> None:
    done: list[str] = []
    turns: Turns[str] = Turns(0.0, done.append)
    for member in ("a1", "a2"):
        turns.add("a", member)
    await asyncio.sleep(0)
    assert done == ["a1"]
    await asyncio.sleep(0)
    assert done == ["a1", "a2"]


async def test_whoever_sends_on_many_connections_waits_and_others_are_read_at_once() -> None:
    charged: dict[str, float] = {}
    turns = ReadingTurns(lambda group, seconds: charged.update({group: seconds}))
    flood = [Reader(READING_SECONDS) for _ in range(20)]
    for reader in flood:
        turns.read("acme", reader)
    read = [reader for reader in flood if reader.reads]
    assert 0 < len(read) < 10 and all(reader.is_waiting for reader in flood if reader not in read)
    quiet = Reader(0.0)
    turns.read("globex", quiet)
    assert quiet.reads
    async with asyncio.timeout(60):
        while any(reader.is_waiting for reader in flood):  # noqa: ASYNC110 - the readers tell nobody
            await asyncio.sleep(0)
    assert all(reader.reads == 1 for reader in flood)
    assert max(charged, key=lambda each: charged[each]) == "acme"


async def test_the_time_of_handling_requests_is_not_counted_as_reading() -> None:
    turns = ReadingTurns()

    class Handler(Reader):
        def read_now(self) -> None:
            super().read_now()
            turns.handled_seconds += 1.0  # Whatever the time was: it may include that of other processes.

    readers = [Handler(READING_SECONDS) for _ in range(20)]
    for reader in readers:
        turns.read("acme", reader)
    assert all(reader.reads for reader in readers)


async def test_a_connection_in_a_connection_is_counted_once() -> None:
    charged: dict[str, float] = {}
    turns = ReadingTurns(lambda group, seconds: charged.update({group: seconds}))

    class Carrier(Reader):
        def read_now(self) -> None:
            turns.read("inner", Reader(5 * READING_SECONDS))
            turns.handled_seconds += 1.0  # Nothing else takes time here, whatever other processes do.

    turns.read("outer", Carrier(0.0))
    await asyncio.sleep(0)
    assert charged["inner"] >= 5 * READING_SECONDS > charged["outer"]


async def test_a_group_that_has_turns_is_not_read_beside_them() -> None:
    turns = ReadingTurns()
    flood = [Reader(READING_SECONDS) for _ in range(8)]
    for reader in flood:
        turns.read("acme", reader)
    await asyncio.sleep(0)  # A new iteration: the group has its part of it by turns.
    assert any(reader.is_waiting for reader in flood)
    late = Reader(0.0)
    turns.read("acme", late)
    assert late.is_waiting
    async with asyncio.timeout(60):
        while late.is_waiting:  # noqa: ASYNC110 - the readers tell nobody
            await asyncio.sleep(0)
    assert all(reader.reads == 1 for reader in flood)
