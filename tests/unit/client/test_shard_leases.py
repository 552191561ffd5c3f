"""Leases of shards: spread over the processes, taken over, given up on request, and of one division at a time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import orjson
import pytest

from alcove.api import objects
from alcove.api.errors import AlreadyExists, ApiError, Conflict, NotFound, status
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.errors import Unreachable
from alcove.client.leader import LeaderTiming
from alcove.client.shard_leases import ShardLeases, lease_names, to_ask_for
from alcove.client.transport import Stream
from alcove.component.tasks import BackgroundTasks
from alcove.http.client import ReceivedResponse
from alcove.testing.clock import VirtualClock

TIMING = LeaderTiming(lease_seconds=15, deadline_seconds=10, renew_seconds=2)


def lease(name: str, holder: str, preferred: str = "") -> Object:
    return {"metadata": {"name": name}, "spec": {"holderIdentity": holder, "preferredHolder": preferred}}


@pytest.mark.parametrize(
    ("holders", "expected"),
    [
        (["a_1", "a_2"], "s1"),
        (["a_1", "a_2", "a_3", "me_1"], "s2"),
        (["a_1", "a_2", "me_1"], None),
        (["a_1", "me_1"], None),
        (["a_1", ""], None),
        (["", ""], None),
        (["me_1", "me_2"], None),
        (["a_1", "b_1", "b_2", "b_3"], "s3"),
    ],
)
def test_who_has_two_less_asks_for_one(holders: list[str], expected: str | None) -> None:
    leases = [lease(f"s{index}", holder) for index, holder in enumerate(holders)]
    found = to_ask_for(leases, "me")
    assert (objects.name(found) if found else None) == expected


def test_one_is_asked_for_at_a_time_and_by_one_process() -> None:
    assert to_ask_for([lease("s0", "a_1"), lease("s1", "a_2"), lease("s2", "a_3", "me")], "me") is None
    assert to_ask_for([lease("s0", "a_1", "b"), lease("s1", "a_2", "b")], "me") is None
    found = to_ask_for([lease("s0", "a_1"), lease("s1", "a_2", "b")], "me")
    assert found is not None and objects.name(found) == "s0"


class Leases:
    """A transport to a server that stores leases, in memory and in virtual time."""

    def __init__(self, shared: dict[str, Object]) -> None:
        self._shared = shared
        self.away = False

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        if self.away:
            raise Unreachable("away", sent=True)
        name = path.partition("?")[0].partition("/leases")[2].strip("/")
        try:
            answer = self._answer(method, name, orjson.loads(body) if body else {})
        except ApiError as error:
            return ReceivedResponse(error.code, {}, orjson.dumps(status(error)))
        return ReceivedResponse(200, {}, orjson.dumps(answer))

    def _answer(self, method: str, name: str, obj: Object) -> Object:
        if method == "GET" and not name:
            return {"metadata": {}, "items": list(self._shared.values())}
        if method == "POST":
            if objects.name(obj) in self._shared:
                raise AlreadyExists("there is one")
            return self._put(obj, 1)
        there = self._shared.get(name)
        if there is None:
            raise NotFound("there is none")
        if method == "GET":
            return there
        revision = there["metadata"]["resourceVersion"]
        expected = objects.get(obj, "preconditions", "resourceVersion") or objects.get(
            obj, "metadata", "resourceVersion"
        )
        if expected != revision:
            raise Conflict("changed")
        if method == "DELETE":
            del self._shared[name]
            return {"kind": "Status"}
        return self._put(obj, int(revision) + 1)

    def _put(self, obj: Object, revision: int) -> Object:
        metadata = {**obj["metadata"], "resourceVersion": str(revision)}
        self._shared[objects.name(obj)] = {**obj, "metadata": metadata}
        return self._shared[objects.name(obj)]

    def stream(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError("nobody watches leases")

    async def close(self) -> None:
        pass


class Process:
    """Holds what it can get, and counts what it works for."""

    def __init__(self, shared: dict[str, Object], name: str, count: int, clock: VirtualClock) -> None:
        self.transport = Leases(shared)
        self.leases = ShardLeases(Client(self.transport), "l", name, count, clock, TIMING)
        self._terms: set[int] = set()

    @property
    def working(self) -> set[int]:
        """The shards that it works for; what is paused writes nothing."""
        return {index for index in self._terms if self.leases.electors[index].is_leading}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with BackgroundTasks() as tasks:
            if len(self.leases.electors) > 1:
                tasks.restart("spread", self.leases.keep_spread)
            for index in range(len(self.leases.electors)):
                tasks.fatal(f"shard {index}", self._lead(index))
            yield
            tasks.cancel()

    async def _lead(self, index: int) -> None:
        while True:
            async with self.leases.electors[index].leading() as lost:
                if await self.leases.is_only_division():
                    self._terms.add(index)
                    try:
                        await lost.wait()
                    finally:
                        self._terms.discard(index)
            await asyncio.sleep(1)


Scenario = Callable[[Callable[[str, int], Process]], Awaitable[None]]


def run(scenario: Scenario) -> None:
    clock = VirtualClock()
    shared: dict[str, Object] = {}

    async def body() -> None:
        await scenario(lambda name, count: Process(shared, name, count, clock))

    clock.run(body())


def test_one_process_takes_all_shards_within_seconds() -> None:
    async def scenario(process: Callable[[str, int], Process]) -> None:
        only = process("a", 4)
        async with only.running():
            await asyncio.sleep(0.1)
            assert only.working == {0}
            await asyncio.sleep(10)
            assert only.working == {0, 1, 2, 3}

    run(scenario)


def test_processes_that_start_together_share_the_shards() -> None:
    async def scenario(process: Callable[[str, int], Process]) -> None:
        a, b = process("a", 4), process("b", 4)
        async with a.running(), b.running():
            await asyncio.sleep(10)
            assert len(a.working) == len(b.working) == 2
            assert a.working | b.working == {0, 1, 2, 3}

    run(scenario)


def test_a_process_that_comes_later_gets_its_part() -> None:
    async def scenario(process: Callable[[str, int], Process]) -> None:
        a, b = process("a", 4), process("b", 4)
        async with a.running():
            await asyncio.sleep(20)
            assert a.working == {0, 1, 2, 3}
            async with b.running():
                for _ in range(300):
                    await asyncio.sleep(0.1)
                    assert not a.working & b.working
                assert a.working == {0, 1}
                assert b.working == {2, 3}

    run(scenario)


def test_shards_of_a_process_that_is_away_are_taken_within_the_lease_and_given_back() -> None:
    async def scenario(process: Callable[[str, int], Process]) -> None:
        a, b = process("a", 2), process("b", 2)
        async with a.running(), b.running():
            await asyncio.sleep(10)
            assert len(a.working) == len(b.working) == 1
            a.transport.away = True
            for _ in range(170):
                await asyncio.sleep(0.1)
                assert not a.working & b.working
            assert b.working == {0, 1}
            a.transport.away = False
            await asyncio.sleep(20)
            assert len(a.working) == len(b.working) == 1

    run(scenario)


def test_another_number_of_shards_waits_until_the_first_has_ended() -> None:
    async def scenario(process: Callable[[str, int], Process]) -> None:
        before, after = process("a", 1), process("b", 2)
        async with before.running():
            await asyncio.sleep(5)
            async with after.running():
                for _ in range(300):
                    await asyncio.sleep(0.1)
                    assert before.working == {0} and not after.working
                before.transport.away = True
                for _ in range(200):
                    await asyncio.sleep(0.1)
                    assert not (before.working and after.working)
                assert after.working == {0, 1}
                before.transport.away = False
                await asyncio.sleep(30)
                assert not before.working and after.working == {0, 1}

    run(scenario)


def test_a_released_lease_of_another_division_is_deleted_at_once() -> None:
    async def scenario(process: Callable[[str, int], Process]) -> None:
        before, after = process("a", 2), process("b", 1)
        async with before.running():
            await asyncio.sleep(10)
        async with after.running():
            await asyncio.sleep(0.1)
            assert after.working == {0}
            assert set(after.transport._shared) == {"l"}

    run(scenario)


def test_a_lease_of_another_division_that_has_expired_is_deleted() -> None:
    """Its fence would let a process that was paused write again."""
    clock = VirtualClock()
    shared = {"l": {"metadata": {"name": "l", "resourceVersion": "7"}, "spec": {"holderIdentity": "gone_1"}}}

    async def body() -> None:
        after = Process(shared, "b", 2, clock)
        async with after.running():
            await asyncio.sleep(10)
            assert not after.working
            await asyncio.sleep(15)
            assert after.working == {0, 1}
            assert set(shared) == set(lease_names("l", 2))

    clock.run(body())
