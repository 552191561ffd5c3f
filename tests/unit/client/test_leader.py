"""Leader election: one process leads, another takes over, and a process that may not write does not."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager

import orjson
import pytest

from alcove.api.errors import AlreadyExists, ApiError, Conflict, NotFound, status
from alcove.api.objects import Object
from alcove.client import kubeconfig
from alcove.client.client import Client
from alcove.client.errors import NotPermitted, Unreachable
from alcove.client.leader import (
    PAUSED_SECONDS_MAX,
    LeaderElector,
    LeaderTiming,
    LeasePolicy,
    ObservedLease,
    may_take,
    renewed,
)
from alcove.client.pool import HttpPool
from alcove.client.transport import Stream
from alcove.http.client import ReceivedResponse
from alcove.testing.clock import VirtualClock
from alcove.testing.server import LocalServer

TIMING = LeaderTiming(lease_seconds=15, deadline_seconds=10, renew_seconds=2)


def lease(holder: str, revision: str = "1") -> Object:
    return {"metadata": {"resourceVersion": revision}, "spec": {"holderIdentity": holder}}


@pytest.mark.parametrize(
    ("found", "seen", "now", "expected"),
    [
        (lease(""), None, 0, True),
        (lease("me_1"), None, 0, True),
        (lease("me_1_1"), None, 0, False),
        (lease("me"), None, 0, False),
        (lease("other"), None, 1_000, False),
        (lease("other"), ObservedLease("other", "1", 0, 15), 14.9, False),
        (lease("other"), ObservedLease("other", "1", 0, 15), 15, True),
        (lease("other", "2"), ObservedLease("other", "1", 0, 15), 1_000, False),
    ],
)
def test_when_a_lease_may_be_taken(
    found: Object, seen: ObservedLease | None, now: float, expected: bool
) -> None:
    assert may_take(found, seen, "me", now) is expected


def test_transitions_count_changes_of_holder() -> None:
    first = renewed({"metadata": {}}, "a", TIMING, 0)
    assert first["spec"]["leaseTransitions"] == 0
    assert renewed(first, "a", TIMING, 5)["spec"] == {
        **first["spec"],
        "renewTime": "1970-01-01T00:00:05.000000Z",
    }
    assert renewed(first, "b", TIMING, 5)["spec"]["leaseTransitions"] == 1


class OneLease:
    """A transport to a server that stores one lease, in memory and in virtual time."""

    def __init__(self, shared: dict[str, Object]) -> None:
        self._shared = shared
        self.away = False

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        if self.away:
            raise Unreachable("away", sent=True)
        try:
            answer = self._answer(method, orjson.loads(body) if body else {})
        except ApiError as error:
            return ReceivedResponse(error.code, {}, orjson.dumps(status(error)))
        return ReceivedResponse(200, {}, orjson.dumps(answer))

    def _answer(self, method: str, obj: Object) -> Object:
        there = self._shared.get("lease")
        if method == "POST":
            if there is not None:
                raise AlreadyExists("there is one")
            return self._put(obj, 1)
        if there is None:
            raise NotFound("there is none")
        if method == "GET":
            return there
        if obj["metadata"]["resourceVersion"] != there["metadata"]["resourceVersion"]:
            raise Conflict("changed")
        return self._put(obj, int(there["metadata"]["resourceVersion"]) + 1)

    def _put(self, obj: Object, revision: int) -> Object:
        self._shared["lease"] = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}
        return self._shared["lease"]

    def change(self, spec: Object | None) -> Object:
        """Another client changes fields of the lease, or deletes it."""
        there = self._shared.pop("lease")
        if spec is None:
            return there
        return self._put(
            {**there, "spec": {**there["spec"], **spec}}, int(there["metadata"]["resourceVersion"]) + 1
        )

    def stream(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError("nobody watches leases")

    async def close(self) -> None:
        pass


Scenario = Callable[[LeaderElector, LeaderElector, OneLease, OneLease], Awaitable[None]]


def two(scenario: Scenario) -> None:
    clock = VirtualClock()

    async def body() -> None:
        shared: dict[str, Object] = {}
        first, second = OneLease(shared), OneLease(shared)
        a = LeaderElector(Client(first), "l", "a", clock, TIMING)
        b = LeaderElector(Client(second), "l", "b", clock, TIMING)
        await scenario(a, b, first, second)

    clock.run(body())


async def lead(leader: LeaderElector, seconds: float, log: list[tuple[str, str, float]]) -> None:
    name = leader._process
    async with leader.leading() as lost:
        log.append((name, "leads", asyncio.get_running_loop().time()))
        try:
            async with asyncio.timeout(seconds):
                await lost.wait()
                log.append((name, "lost", asyncio.get_running_loop().time()))
        except TimeoutError:
            pass


def test_a_released_lease_is_taken_at_once() -> None:
    async def scenario(a: LeaderElector, b: LeaderElector, *_clients: OneLease) -> None:
        log: list[tuple[str, str, float]] = []
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(lead(a, 60, log))
            await asyncio.sleep(1)
            tasks.create_task(lead(b, 5, log))
        assert [(name, what) for name, what, _ in log] == [("a", "leads"), ("b", "leads")]
        assert 60 <= log[1][2] <= 60 + TIMING.renew_seconds

    two(scenario)


def test_a_leader_that_cannot_renew_stops_before_another_begins() -> None:
    async def scenario(a: LeaderElector, b: LeaderElector, cut_off: OneLease, _b: OneLease) -> None:
        log: list[tuple[str, str, float]] = []
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(lead(a, 1_000, log))
            await asyncio.sleep(1)
            tasks.create_task(lead(b, 60, log))
            await asyncio.sleep(20)
            cut_off.away = True
            a.check()
            await asyncio.sleep(TIMING.deadline_seconds)
            with pytest.raises(NotPermitted):
                a.check()
            stopped = asyncio.get_running_loop().time()
            assert not b.is_leading
            await asyncio.sleep(TIMING.lease_seconds)
            assert b.is_leading
            cut_off.away = False
        assert [(name, what) for name, what, _ in log] == [("a", "leads"), ("b", "leads"), ("a", "lost")]
        assert log[1][2] - stopped >= TIMING.lease_seconds - TIMING.deadline_seconds - TIMING.renew_seconds
        assert log[1][2] - 21 <= TIMING.lease_seconds + 2 * TIMING.renew_seconds

    two(scenario)


def test_a_term_goes_on_after_a_restart_of_the_server_and_writes_nothing_meanwhile() -> None:
    """Whoever leads would have to read everything again, and so would another."""

    async def scenario(a: LeaderElector, b: LeaderElector, *clients: OneLease) -> None:
        waiting = asyncio.create_task(lead(b, 5, []))
        async with a.leading() as lost:
            fence = a.fence
            await asyncio.sleep(10 * TIMING.renew_seconds)
            for client in clients:
                client.away = True
            await asyncio.sleep(PAUSED_SECONDS_MAX - TIMING.lease_seconds)
            with pytest.raises(NotPermitted):
                a.check()
            with pytest.raises(NotPermitted):
                await a.confirm()
            for client in reversed(clients):
                client.away = False  # Another may be the first that sees the server again.
            await asyncio.sleep(2 * TIMING.renew_seconds)
            a.check()
            await a.confirm()
            assert a.fence == fence and not lost.is_set() and not b.is_leading
        await waiting

    two(scenario)


def test_a_paused_leader_whose_lease_was_taken_and_released_meanwhile_has_lost_it() -> None:
    async def scenario(a: LeaderElector, b: LeaderElector, cut_off: OneLease, _b: OneLease) -> None:
        async with a.leading() as lost:
            await asyncio.sleep(TIMING.renew_seconds)
            cut_off.away = True
            await lead(b, 5, [])
            assert not lost.is_set() and not a.is_leading
            cut_off.away = False
            async with asyncio.timeout(2 * TIMING.renew_seconds):
                await lost.wait()
            with pytest.raises(NotPermitted):
                a.check()

    two(scenario)


def test_a_leader_that_is_paused_for_longer_than_watches_can_resume_gives_up() -> None:
    async def scenario(a: LeaderElector, _b: LeaderElector, cut_off: OneLease, _other: OneLease) -> None:
        async with a.leading() as lost:
            cut_off.away = True
            async with asyncio.timeout(PAUSED_SECONDS_MAX + TIMING.lease_seconds):
                await lost.wait()

    two(scenario)


def test_the_time_in_which_a_lease_could_not_be_seen_does_not_count() -> None:
    async def scenario(a: LeaderElector, b: LeaderElector, dead: OneLease, other: OneLease) -> None:
        now = asyncio.get_running_loop().time
        log: list[tuple[str, str, float]] = []
        async with a.leading():
            waiting = asyncio.create_task(lead(b, 5, log))
            await asyncio.sleep(2 * TIMING.renew_seconds)
            dead.away = other.away = True
            died = now()
            await asyncio.sleep(100)
            other.away = False
            await waiting
        away = 100 - TIMING.renew_seconds
        assert away <= log[0][2] - died - TIMING.lease_seconds <= 100 + 2 * TIMING.renew_seconds

    two(scenario)


def test_never_two_lead_whatever_is_cut_off() -> None:
    async def scenario(a: LeaderElector, b: LeaderElector, *clients: OneLease) -> None:
        chance = random.Random(7)
        both = 0

        async def forever(leader: LeaderElector) -> None:
            while True:
                async with leader.leading() as lost:
                    await lost.wait()

        running = [asyncio.create_task(forever(leader)) for leader in (a, b)]
        led: set[str] = set()
        for _ in range(2_000):
            for client in clients:
                if chance.random() < 0.1:
                    client.away = not client.away
            await asyncio.sleep(chance.random() * 5)
            both += a.is_leading and b.is_leading
            led |= {leader._process for leader in (a, b) if leader.is_leading}
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        assert both == 0 and led == {"a", "b"}

    two(scenario)


def test_every_term_has_a_name_of_its_own() -> None:
    async def scenario(a: LeaderElector, *_others: object) -> None:
        fences = []
        for _ in range(3):
            async with a.leading():
                fences.append(a.fence)
        assert len(set(fences)) == 3

    two(scenario)


def test_a_process_can_retake_its_own_lease_immediately() -> None:
    async def scenario(a: LeaderElector, _b: LeaderElector, cut_off: OneLease, _other: OneLease) -> None:
        async with a.leading() as lost:
            cut_off.away = True
            await lost.wait()
        cut_off.away = False
        began = asyncio.get_running_loop().time()
        async with a.leading():
            assert asyncio.get_running_loop().time() - began < TIMING.renew_seconds

    two(scenario)


def test_a_leader_keeps_a_lease_that_others_only_write_to() -> None:
    async def scenario(a: LeaderElector, _b: LeaderElector, client: OneLease, _other: OneLease) -> None:
        async with a.leading() as lost:
            client.change({})
            await asyncio.sleep(3 * TIMING.lease_seconds)
            assert a.is_leading and not lost.is_set()

    two(scenario)


@pytest.mark.parametrize("spec", [{"holderIdentity": "b_1"}, {"holderIdentity": ""}, None])
def test_a_leader_whose_lease_was_taken_or_deleted_has_lost_it(spec: Object | None) -> None:
    """It does not take it back in the same term: others may have led meanwhile."""

    async def scenario(a: LeaderElector, _b: LeaderElector, client: OneLease, _other: OneLease) -> None:
        async with a.leading() as lost:
            client.change(spec)
            async with asyncio.timeout(2 * TIMING.renew_seconds):
                await lost.wait()
            assert not a.is_leading

    two(scenario)


def test_a_lease_is_released_for_whom_asks_if_the_policy_agrees() -> None:
    clock = VirtualClock()

    async def body() -> None:
        client, agrees = OneLease({}), False
        policy = LeasePolicy(leaves=lambda preferred: agrees and preferred == "b")
        a = LeaderElector(Client(client), "l", "a", clock, TIMING, policy=policy)
        async with a.leading() as lost:
            client.change({"preferredHolder": "b"})
            await asyncio.sleep(3 * TIMING.lease_seconds)
            assert not lost.is_set()
            agrees = True
            async with asyncio.timeout(2 * TIMING.renew_seconds):
                await lost.wait()
            a.check()  # It may write until its work has ended.
        released = client.change({})
        assert released["spec"]["holderIdentity"] == "" and released["spec"]["preferredHolder"] == "b"
        assert "preferredHolder" not in renewed(released, "b_1", TIMING, 0)["spec"]

    clock.run(body())


def test_confirm_waits_for_a_renewal_after_the_call() -> None:
    async def scenario(a: LeaderElector, _b: LeaderElector, cut_off: OneLease, _other: OneLease) -> None:
        now = asyncio.get_running_loop().time
        with pytest.raises(NotPermitted):
            await a.confirm()
        async with a.leading():
            began = now()
            await asyncio.gather(a.confirm(), a.confirm())
            assert now() - began < TIMING.renew_seconds  # Nobody waits for the next renewal.
            cut_off.away = True
            confirming = asyncio.create_task(a.confirm())
            await asyncio.sleep(TIMING.deadline_seconds / 2)
            assert not confirming.done() and a.is_leading
            cut_off.away = False
            await confirming
            cut_off.away = True
            with pytest.raises(NotPermitted):
                await a.confirm()

    two(scenario)


async def test_one_leader_at_a_time_on_a_real_server(server: LocalServer) -> None:
    pool = HttpPool(kubeconfig.load(server.admin_kubeconfig))
    client = Client(pool)
    a, b = (LeaderElector(client, "real", name, time.time, LeaderTiming(renew_seconds=0.01)) for name in "ab")
    async with a.leading():
        a.check()
        assert not await b._try()
    async with b.leading():
        b.check()
        assert not a.is_leading
    await pool.close()
